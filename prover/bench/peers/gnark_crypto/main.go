// Times of gnark-crypto's field products, multi-scalar multiplications and transforms on one thread, in the form and under the names
// of native/bench/kernel_bench.c: for each line of input everything is measured once, one JSON object per line, then an empty line.
//
// Usage: kernelbench [largest log2 of G1 [of G2 [of a transform]]]
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
)

const (
	minLog2 = 10
	values  = 16
	rounds  = 500
	runs    = 60
)

// shortest is the shortest time of several runs, divided by operations, in nanoseconds.
func shortest(operations int, work func()) float64 {
	best := time.Duration(1<<63 - 1)
	for range runs {
		start := time.Now()
		work()
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / float64(operations)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func log2Argument(place int, otherwise int) int {
	if len(os.Args) <= place {
		return otherwise
	}
	value, err := strconv.Atoi(os.Args[place])
	must(err)
	return value
}

func fields() {
	var a, b [values]fp.Element
	for i := range a {
		_, err := a[i].SetRandom()
		must(err)
		_, err = b[i].SetRandom()
		must(err)
	}
	product := shortest(rounds*values, func() {
		for range rounds {
			for i := range a {
				a[i].Mul(&a[i], &b[i])
			}
		}
	})
	latency := shortest(rounds*values, func() {
		for range rounds {
			for i := range b {
				a[0].Mul(&a[0], &b[i])
			}
		}
	})
	square := shortest(rounds*values, func() {
		for range rounds {
			for i := range a {
				a[i].Square(&a[i])
			}
		}
	})
	inverse := shortest(rounds, func() {
		for range rounds {
			a[0].Inverse(&a[0])
		}
	})
	fmt.Printf("{\"name\": \"fp_mul_tput\", \"ns\": %.2f}\n{\"name\": \"fp_mul_lat\", \"ns\": %.2f}\n", product, latency)
	fmt.Printf("{\"name\": \"fp_sqr_tput\", \"ns\": %.2f}\n{\"name\": \"fp_inv\", \"ns\": %.2f}\n", square, inverse)
}

func sum(name string, log2 int, multiply func() error) {
	start := time.Now()
	must(multiply())
	taken := float64(time.Since(start).Nanoseconds())
	fmt.Printf("{\"name\": \"%s_%d\", \"ms\": %.3f, \"ns_per_point\": %.0f}\n", name, log2, taken/1e6, taken/float64(int(1)<<log2))
}

func randomScalars(scalars []fr.Element) {
	for i := range scalars {
		_, err := scalars[i].SetRandom()
		must(err)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	g1Log2, g2Log2, transformLog2 := log2Argument(1, 18), log2Argument(2, 18), log2Argument(3, 20)
	_, _, g1, g2 := bn254.Generators()
	scalars := make([]fr.Element, 1<<max(g1Log2, g2Log2, transformLog2))
	randomScalars(scalars)
	g1Bases := bn254.BatchScalarMultiplicationG1(&g1, scalars[:1<<g1Log2])
	g2Bases := bn254.BatchScalarMultiplicationG2(&g2, scalars[:1<<g2Log2])
	domains := map[int]*fft.Domain{}
	for log2 := minLog2; log2 <= transformLog2; log2++ {
		domains[log2] = fft.NewDomain(1 << log2)
	}
	config := ecc.MultiExpConfig{NbTasks: 1}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		fields()
		for log2 := minLog2; log2 <= g1Log2; log2++ {
			randomScalars(scalars[:1<<log2])
			sum("msm_g1", log2, func() error {
				_, err := new(bn254.G1Jac).MultiExp(g1Bases[:1<<log2], scalars[:1<<log2], config)
				return err
			})
		}
		for log2 := minLog2; log2 <= g2Log2; log2++ {
			randomScalars(scalars[:1<<log2])
			sum("msm_g2", log2, func() error {
				_, err := new(bn254.G2Jac).MultiExp(g2Bases[:1<<log2], scalars[:1<<log2], config)
				return err
			})
		}
		for log2 := minLog2; log2 <= transformLog2; log2++ {
			vector := scalars[:1<<log2]
			start := time.Now()
			domains[log2].FFTInverse(vector, fft.DIF, fft.WithNbTasks(1))
			domains[log2].FFT(vector, fft.DIT, fft.WithNbTasks(1))
			taken := float64(time.Since(start).Nanoseconds()) / 2
			each := taken / float64(log2<<(log2-1))
			fmt.Printf("{\"name\": \"ntt_%d\", \"ms\": %.3f, \"ns_per_butterfly\": %.2f}\n", log2, taken/1e6, each)
		}
		fmt.Println()
	}
}
