#include "groth16.h"
