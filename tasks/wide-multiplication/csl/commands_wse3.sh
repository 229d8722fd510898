#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=8,3 params=num_bits:256,MEMCPYH2D_DATA_1_ID:0,MEMCPYD2H_DATA_1_ID:1 ;;
  medium) dims=8,3 params=num_bits:4704,MEMCPYH2D_DATA_1_ID:0,MEMCPYD2H_DATA_1_ID:1 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
