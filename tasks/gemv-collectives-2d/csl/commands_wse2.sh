#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|p2|p8|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=11,6 params=kernel_rows:4,kernel_cols:4,matrix_rows:32,matrix_cols:16 ;;
  p2) dims=9,4 params=kernel_rows:2,kernel_cols:2,matrix_rows:16,matrix_cols:8 ;;
  p8) dims=15,10 params=kernel_rows:8,kernel_cols:8,matrix_rows:64,matrix_cols:32 ;;
  medium) dims=12,5 params=kernel_rows:3,kernel_cols:5,matrix_rows:219,matrix_cols:455 ;;
  *) echo "unknown size '$size'; known: small, p2, p8, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
