#!/usr/bin/env bash
# Build and run on WSE-3: ./commands_wse3.sh [small|medium]

set -e

size="${1:-small}"
case "$size" in
  small) dims=15,10 params=INPUT_SIZE:16,HIST_WIDTH:8,HIST_HEIGHT:8,NUM_BUCKETS:4,BUCKET_SIZE:2 ;;
  medium) dims=14,7 params=INPUT_SIZE:93,HIST_WIDTH:7,HIST_HEIGHT:5,NUM_BUCKETS:29,BUCKET_SIZE:6 ;;
  *) echo "unknown size '$size'; known: small, medium" >&2 && exit 2 ;;
esac

cslc layout.csl --arch=wse3 --fabric-dims="$dims" --fabric-offsets=4,1 --params="$params" \
  --memcpy --channels=1 -o out
cs_python run.py --name out
