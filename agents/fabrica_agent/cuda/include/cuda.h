#include "fabrica_cuda.h"
