"""The detection example over a mesh: the losses of one device, and no costs that travel."""

import re
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest


eqx = pytest.importorskip("equinox")
pytest.importorskip("matplotlib")
optax = pytest.importorskip("optax")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        import digits_detection

        yield digits_detection


@pytest.fixture(scope="module")
def runs(example):
    """On one device and on four: the compiled step, the losses of three steps, the model and the
    costs after them, and its logits for held-out scenes."""
    digits, test_digits = example.load_split()
    make_scenes = partial(example.make_scenes, test_digits, jax.random.key(1))
    optimizer = optax.sgd(1e-2)
    start = example.DigitsDETR(example.NUM_CLASSES, width=16, key=jax.random.key(0))
    found = {}
    for count in (1, 4):
        mesh = example.mesh_of(count)
        # Copies: a step takes the buffers of what it is given.
        model = jax.tree.map(lambda x: x.copy() if eqx.is_array(x) else x, start)
        state = optimizer.init(eqx.filter(model, eqx.is_array))
        shared, model, state = example.everywhere((digits, model, state), mesh)
        keys = jax.random.split(jax.random.key(2), 3)
        fixed = [(shared, key, "jaxmatch", optimizer, mesh) for key in keys]
        step = example.train_step.lower(fixed[0], model, state).compile()
        losses = []
        for k in range(3):
            model, state, loss, costs = step(fixed[k], model, state)
            losses.append(jax.tree.map(np.asarray, loss))
        # Ten scenes do not divide by four.
        make = jax.jit(lambda mesh: example.divided(make_scenes(10), mesh), static_argnums=0)
        logits, _ = example.predict(model, make(mesh).image)
        found[count] = step, losses, model, costs, logits
    return found


def test_losses_and_parameters_are_those_of_one_device(runs):
    """Up to the order in which floats are added up."""
    (_, alone, model, costs, logits), (_, together, model4, costs4, logits4) = runs[1], runs[4]
    assert len({float(loss.total) for loss in alone}) == 3
    for one, four in zip(alone, together, strict=True):
        assert int(four.num_unsolved) == 0
        np.testing.assert_array_equal(one.num_targets, four.num_targets)
        np.testing.assert_allclose(one.total, four.total, rtol=1e-5)
    parameters = (jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (model, model4))
    for one, four in (*zip(*parameters, strict=True), *zip(costs, costs4, strict=True)):
        np.testing.assert_allclose(np.asarray(one), np.asarray(four), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.asarray(logits), np.asarray(logits4), rtol=1e-3, atol=1e-4)


def test_nothing_travels_but_sums(runs):
    text = runs[4][0].compiled.as_text()
    found = set(re.findall(r"all-gather|all-to-all|collective-permute|all-reduce", text))
    assert found == {"all-reduce"}


def test_each_device_has_its_scenes_and_all_parameters(runs):
    step, _, model, (cost, mask), _ = runs[4]
    layers, batch, queries, targets = cost.shape
    assert {s.data.shape for s in cost.addressable_shards} == {
        (layers, batch // 4, queries, targets)
    }
    assert {s.data.shape for s in mask.addressable_shards} == {(batch // 4, targets)}
    assert len(cost.sharding.device_set) == 4
    for x in jax.tree.leaves(eqx.filter(model, eqx.is_array)):
        assert x.sharding.is_fully_replicated and len(x.sharding.device_set) == 4
    # The scenes are made where they are used: nobody ever holds the noise of all images.
    text = step.compiled.as_text()
    assert f"[{batch // 4},128,128]" in text and f"[{batch},128,128]" not in text


@pytest.mark.parametrize("count", [0, 3, 5])
def test_what_does_not_divide_the_batch(example, count):
    with pytest.raises(SystemExit, match=rf"batch of 16 scenes, got {count}.*\[1, 2, 4, 8, 16\]"):
        example.mesh_of(count)


def test_fewer_devices_than_asked_for(example):
    if len(jax.devices()) >= 16:
        pytest.skip("there are as many")
    with pytest.raises(SystemExit, match="xla_force_host_platform_device_count=16"):
        example.mesh_of(16)
