#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=11,6 params=kernel_rows:4,kernel_cols:4,matrix_rows:32,matrix_cols:16,MEMCPYH2D_DATA_1_ID:10,MEMCPYH2D_DATA_2_ID:11,MEMCPYD2H_DATA_1_ID:12 ;;
  medium) dims=12,5 params=kernel_rows:3,kernel_cols:5,matrix_rows:345,matrix_cols:755,MEMCPYH2D_DATA_1_ID:10,MEMCPYH2D_DATA_2_ID:11,MEMCPYD2H_DATA_1_ID:12 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
