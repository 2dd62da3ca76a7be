"""BoTorch on the same base samples gives the same numbers. Runs where BoTorch is installed."""

import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.base_samples import normals

torch = pytest.importorskip("torch")
botorch = pytest.importorskip("botorch")

SAMPLES, THRESHOLD, BETA, TEMPERATURE = 256, 0.4, 1.7, 0.05
RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 6))
MEAN, COVARIANCE = RNG.normal(0, 0.5, 4), A @ A.T / 6


def acquisition(name, **options):
    """BoTorch's estimate under N(MEAN, COVARIANCE), with our antithetic base samples and no jitter.

    Antithetic, because BoTorch's upper confidence bound centres on the samples' mean, which then is the true one.
    """
    from botorch.acquisition import monte_carlo
    from botorch.sampling.base import MCSampler
    from botorch.utils.testing import MockModel, MockPosterior

    y = MEAN + normals(SAMPLES, 4, base="antithetic", seed=1) @ np.linalg.cholesky(COVARIANCE).T

    class Dictated(MCSampler):
        def forward(self, posterior):
            return torch.as_tensor(y)[:, None, :, None]

    options = {name: torch.as_tensor(value, dtype=torch.double) for name, value in options.items()}  # 32 bit otherwise
    model = MockModel(MockPosterior(mean=torch.as_tensor(MEAN)[None, :, None]))
    sampler = Dictated(sample_shape=torch.Size([SAMPLES]), seed=0)
    return float(
        getattr(monte_carlo, name)(model, sampler=sampler, **options)(torch.zeros(1, 4, 1, dtype=torch.double))
    )


PAIRS = {
    "EI": ("qExpectedImprovement", {"best_f": THRESHOLD}, pw.ExpectedImprovement(THRESHOLD)),
    "PI": (
        "qProbabilityOfImprovement",
        {"best_f": THRESHOLD, "tau": TEMPERATURE},
        pw.ProbabilityOfImprovement(THRESHOLD, TEMPERATURE),
    ),
    "UCB": ("qUpperConfidenceBound", {"beta": BETA}, pw.UpperConfidenceBound(BETA)),
    "SR": ("qSimpleRegret", {}, pw.SimpleRegret()),
}


@pytest.mark.filterwarnings("ignore:qExpectedImprovement has known numerical issues")
@pytest.mark.parametrize("name, options, integrand", PAIRS.values(), ids=PAIRS)
def test_same_samples_same_value(name, options, integrand):
    """EI, soft PI, UCB and SR of a pool of four, to 1e-10."""
    value = pw.expectation(integrand, pw.Normal(MEAN, COVARIANCE), samples=SAMPLES, base="antithetic", seed=1).value

    assert acquisition(name, **options) == pytest.approx(value, abs=1e-10)


def test_posterior_equals_gpytorchs():
    """Mean and covariance of BoTorch's single-task model with fixed hyperparameters, to 1e-8."""
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel

    X, y, new = RNG.random((12, 2)), RNG.standard_normal(12), RNG.random((3, 2))
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 1.44, torch.tensor([[0.4, 0.7]], dtype=torch.double)
    tensors = [torch.as_tensor(a) for a in (X, y[:, None], np.full((12, 1), 1e-2))]
    model = SingleTaskGP(*tensors, covar_module=kernel, outcome_transform=None)
    model.mean_module.constant = 0.3
    peer = model.posterior(torch.as_tensor(new))
    normal = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=1.2), noise=1e-2, mean=0.3).condition(X, y)(new)

    np.testing.assert_allclose(peer.mean.detach().numpy()[:, 0], normal.mean, atol=1e-8)
    np.testing.assert_allclose(peer.distribution.covariance_matrix.detach().numpy(), normal.covariance, atol=1e-8)
