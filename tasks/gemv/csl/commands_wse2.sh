#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|large|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=11,6 params=kernel_rows:4,kernel_cols:4,matrix_rows:32,matrix_cols:16 ;;
  large) dims=15,10 params=kernel_rows:8,kernel_cols:8,matrix_rows:512,matrix_cols:256 ;;
  medium) dims=10,7 params=kernel_rows:5,kernel_cols:3,matrix_rows:505,matrix_cols:249 ;;
  *) echo "unknown size '$size'; known: small, large, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
