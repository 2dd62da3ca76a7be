"""Tune a support vector machine that reads handwritten digits, four candidates at a time.

pip install 'poolwise[sklearn]'
python search.py
"""

from sklearn.datasets import load_digits
from sklearn.svm import SVC

from poolwise import Float
from poolwise.adapters.sklearn import PoolSearchCV

images, digits = load_digits(return_X_y=True)
images, digits = images[::4], digits[::4]  # a quarter of them, so that this takes seconds

search = PoolSearchCV(
    SVC(),
    {"C": Float(1e-2, 1e4, log=True), "gamma": Float(1e-6, 1, log=True)},
    n_iter=12,
    n_points=4,
    cv=3,
    n_jobs=None,  # -1 for all cores
    random_state=0,
)
search.fit(images, digits)

print(search.best_params_)
print(search.best_score_)
