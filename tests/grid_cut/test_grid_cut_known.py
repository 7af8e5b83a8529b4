"""Images and a volume whose maximum flows others have found and agree on."""

import jax
import numpy as np
import pytest
from grid_cut_helpers import STEPS, capacity_of_cut

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


SHAPES = {
    "camera_512": ((512, 512), 30298),
    "china_640x427_rgb": ((427, 640), 89914),
    "coins": ((303, 384), 60797),
    "mni_t1_3mm": ((66, 78, 63), 60262),
}


def load(data_dir, name):
    """A network's arcs as source, sink and pairwise capacities."""
    path = data_dir / "flow" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    shape, _ = SHAPES[name]
    connectivity = 2 * len(shape)
    with np.load(path) as file:
        source, sink = int(file["source"]), int(file["sink"])
        tail, head, capacity = (file[x].astype(np.int64) for x in ("src", "dst", "cap"))
    terminals = np.zeros((2, int(np.prod(shape))), np.int32)
    np.add.at(terminals[0], head[tail == source], capacity[tail == source])
    np.add.at(terminals[1], tail[head == sink], capacity[head == sink])
    inner = (tail != source) & (head != sink)
    tail, head, capacity = tail[inner], head[inner], capacity[inner]
    pairwise = np.zeros((connectivity, terminals.shape[1]), np.int32)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    for k, step in enumerate(STEPS[connectivity]):
        along = head - tail == np.dot(step, strides)
        np.add.at(pairwise[k], tail[along], capacity[along])
    assert pairwise.sum() == capacity.sum()
    return (*terminals.reshape(2, *shape), pairwise.reshape(connectivity, *shape), connectivity)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("name", SHAPES)
def test_images(data_dir, name, dtype):
    *given, connectivity = load(data_dir, name)
    source, sink, pairwise = (x.astype(dtype) for x in given)
    half = connectivity // 2
    both = jm.grid_cut(source, sink, pairwise, connectivity=connectivity)
    one = jm.grid_cut(source, sink, pairwise[:half], connectivity=connectivity)
    assert both.value == one.value == SHAPES[name][1]
    np.testing.assert_array_equal(both.source_side, one.source_side)
    side = np.asarray(both.source_side)
    assert capacity_of_cut(source, sink, pairwise, side, connectivity) == SHAPES[name][1]


@pytest.mark.gpu
@pytest.mark.parametrize("divisor", [1, 20])  # of the unary terms: flow goes further
def test_racing_tiles_agree_with_themselves(data_dir, divisor, platform):
    if platform == "cpu":
        pytest.skip("nobody races")
    source, sink, pairwise, connectivity = load(data_dir, "coins")
    given = source // divisor, sink // divisor, pairwise
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jm.grid_cut(*given, connectivity=connectivity)
    for _ in range(100):
        res = jm.grid_cut(*given, connectivity=connectivity)
        assert int(res.value) == int(expected.value)
        np.testing.assert_array_equal(res.source_side, expected.source_side)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_batch_of_faces(data_dir, method):
    path = data_dir / "flow" / "batch_lfw_200x25x25.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with np.load(path) as file:
        us, ut, wx, wy, optimum = (file[x] for x in ("us", "ut", "wx", "wy", "optimum"))
    pairwise = np.zeros((len(us), 2, *us.shape[1:]), np.int32)
    pairwise[:, 0, :, :-1], pairwise[:, 1, :-1] = wx, wy
    res = jm.grid_cut(us, ut, pairwise, method=method)
    np.testing.assert_array_equal(res.value, optimum)
    for k in (0, 17, 199):
        cut = capacity_of_cut(us[k], ut[k], pairwise[k], res.source_side[k], 4)
        assert cut == optimum[k]
