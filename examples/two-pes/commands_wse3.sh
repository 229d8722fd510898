#!/usr/bin/env bash
set -e
cslc layout.csl --arch=wse3 --fabric-dims=9,3 --fabric-offsets=4,1 --params=n:16 --memcpy --channels=1 -o out
cs_python run.py --name out
