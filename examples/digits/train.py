"""One trial: the error of a support vector machine on handwritten digits, by cross-validation."""

import argparse

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scale", choices=["none", "standard", "minmax"], required=True)
parser.add_argument("--components", type=int, required=True)
parser.add_argument("--C", type=float, required=True)
parser.add_argument("--gamma", type=float, required=True)
given = parser.parse_args()

steps = {"none": [], "standard": [StandardScaler()], "minmax": [MinMaxScaler()]}[given.scale]
machine = SVC(C=given.C, gamma=given.gamma)
model = make_pipeline(*steps, PCA(given.components, random_state=0), machine)

images, digits = load_digits(return_X_y=True)
accuracies = cross_val_score(model, images, digits, cv=5)

# The last line of the output is what Poolwise reads.
print(1 - accuracies.mean())
