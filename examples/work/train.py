"""What a worker runs: stands for a training of minutes or hours. The last line it prints is the value."""

import argparse
import json
import math

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--width", type=int, required=True)
given = parser.parse_args()

print("training ...")
loss = math.log10(given.lr / 0.01) ** 2 + math.log2(given.width / 64) ** 2 / 9
print(json.dumps({"value": loss}))
