module kernelbench

go 1.25.7

require github.com/consensys/gnark-crypto v0.20.1
