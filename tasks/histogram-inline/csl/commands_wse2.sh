#!/usr/bin/env bash
# Build and run on WSE-2: ./commands_wse2.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=8,6 params=Py:4,n_per_pe:64,n_buckets:16,bucket_size:64 ;;
  medium) dims=8,8 params=Py:6,n_per_pe:6011,n_buckets:128,bucket_size:32 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse2 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
