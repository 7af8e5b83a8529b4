"""Deliberate faults, one at a time in a copy of the tree: do the tests find them?

    python tests/mutations.py              all
    python tests/mutations.py NAME ...     those whose names begin so
    python tests/mutations.py --as-make-test [NAME ...]
    python tests/mutations.py --list

Each fault names the tests that find it. With `--as-make-test`, those that `make test` runs of that
folder and of `tests/conformance` must find it.

The copy and its native library are kept in build/mutations: a fault of C++ compiles what includes
it. Faults of CUDA kernels are for the emulators. Needs CMake and ninja; takes about a minute each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutations"
_TIMEOUT = 900  # seconds; a fault that makes a solver run for ever is found


class Fault(NamedTuple):
    file: str
    old: str  # stands there once
    new: str
    tests: str  # arguments for pytest, separated by spaces


_EXHAUSTIVE = "tests/assignment/test_assignment_exhaustive.py"
_CERTIFICATE = "tests/assignment/test_certificate.py"
_GAPS = "tests/assignment/test_assignment_extremes.py tests/assignment/test_assignment_families.py"
_ASSIGNMENT = "tests/emulation/test_assignment_emulated.py"
_MATCHING = "tests/emulation/test_matching_emulated.py"
_FLOW = "tests/emulation/test_flow_emulated.py"
_MIN_COST_FLOW = "tests/min_cost_flow"
_GRID_CUT = "tests/emulation/test_grid_cut_emulated.py"
_K_BEST = "tests/emulation/test_k_best_emulated.py"
_PERTURBED = "tests/learning/test_perturbed_assignment.py"
_ESTIMATORS = "tests/learning/test_estimators.py"
_LOSSES = "tests/learning/test_losses.py"
_TRANSPORT = "tests/transport/test_transport_truth.py"
_CAPACITIES = "tests/assignment/test_capacities.py"
_SPARSE = "tests/sparse_assignment/test_sparse_assignment.py"

FAULTS = {
    # Solvers on the CPU.
    "assignment-stale-label": Fault(
        "ffi/assignment/cpu/augment.h",
        "s.label[j] = s.v[j] + x;",
        "s.label[j] = s.v[j];",
        _EXHAUSTIVE,
    ),
    "assignment-leaves-at-the-wrong-row": Fault(
        "ffi/assignment/cpu/augment.h",
        "search.end_row = i;",
        "search.end_row = search.end_row;",
        "tests/assignment/test_assignment_features.py",
    ),
    "assignment-gap-too-small": Fault(
        "ffi/assignment/cpu/finish.h",
        "gap.add(addition_error(cost, -s.v[j], paid));",
        "",
        _GAPS,
    ),
    "assignment-gap-of-matched-columns": Fault(
        "ffi/assignment/cpu/finish.h",
        "if (s.row4col[j] == kNone) gap.add(-s.v[j]);",
        "gap.add(-s.v[j]);",
        "tests/assignment/test_assignment_features.py",
    ),
    "assignment-masks-swapped": Fault(
        "ffi/assignment/operands.h",
        'rows.optional("row_mask", o.row_mask, o.n);',
        'rows.optional("col_mask", o.row_mask, o.n);',
        "tests/assignment/test_assignment_features.py",
    ),
    "core-gap-without-rounding": Fault(
        "ffi/assignment/large/finish.h",
        "paid - least + 0x1p-51 * (fabs(paid) + fabs(least)) + prices.rounding();",
        "paid - least;",
        "tests/assignment/test_assignment_extremes.py tests/assignment/test_assignment_core.py",
    ),
    "flow-idle-nodes-stay-idle": Fault(
        "ffi/flow/cpu/pseudoflow.h",
        "if (g_.excess[v] > 0 && before <= 0) add_root(v);",
        "if (g_.excess[v] > 0 && before < 0) add_root(v);",
        "tests/flow/test_flow_known.py",
    ),
    "flow-arcs-in-the-wrong-direction": Fault(
        "ffi/flow/cpu/pseudoflow.h",
        "fillable_[node_[parent].end++] = {v, way ^ 1};",
        "fillable_[node_[parent].end++] = {v, way};",
        "tests/flow/test_flow_known.py",
    ),
    "flow-cut-without-excesses": Fault(
        "ffi/flow/cpu/finish.h",
        "side[v] = g.excess[v] > 0 || v == p.source;",
        "side[v] = v == p.source;",
        "tests/flow/test_flow_known.py tests/flow/test_flow.py",
    ),
    "min-cost-flow-room-in-place-of-flow": Fault(
        "ffi/min_cost_flow/network_simplex.h",
        "arc_[at.arc].tail == u ? at.down : at.up;",
        "arc_[at.arc].tail == u ? at.up : at.down;",
        f"{_MIN_COST_FLOW}/test_min_cost_flow.py",
    ),
    "min-cost-flow-supplies-without-lower-bounds": Fault(
        "ffi/min_cost_flow/mass_units.h",
        "to = int64_t(uint64_t(to) + uint64_t(lower));",
        "to = int64_t(uint64_t(to) - uint64_t(lower));",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_extremes.py",
    ),
    "min-cost-flow-gap-of-flows": Fault(
        "ffi/min_cost_flow/finish.h",
        "gap += reduced * above(e);",
        "",
        f"{_MIN_COST_FLOW}/test_min_cost_flow.py",
    ),
    "min-cost-flow-rounded-prices": Fault(
        "ffi/min_cost_flow/cost_units.h",
        "is_coarse_exact_ = most_bit + margin_ - 62 <= least_bit;",
        "is_coarse_exact_ = true;",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_extremes.py",
    ),
    "min-cost-flow-unbounded-before-infeasible": Fault(
        "ffi/min_cost_flow/solve.h",
        "const Next next = write_if_infeasible(masses, is_low, flow);",
        "const Next next = Next::kWithMoreLimits;",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_status.py",
    ),
    "min-cost-flow-scaling-forgets-loops": Fault(
        "ffi/min_cost_flow/cpu/cost_scaling.h",
        "const int64_t of_loop = g_.cost[e] < 0 ? g_.capacity[e] : 0;",
        "const int64_t of_loop = 0;",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_extremes.py",
    ),
    "matching-cover-of-free-columns": Fault(
        "ffi/matching/cpu/cover.h",
        "if (s.row4col[j] >= 0) row_cover[s.row4col[j]] = false;",
        "",
        "tests/matching/test_matching.py",
    ),
    "transport-mass-against-the-cycle": Fault(
        "ffi/transport/cpu/simplex.h",
        "for (x = j; x != meet; x = b.above[x]) b.flow[x] += b.leads_up(x) ? mass : -mass;",
        "for (x = j; x != meet; x = b.above[x]) b.flow[x] += b.leads_up(x) ? -mass : mass;",
        _TRANSPORT,
    ),
    "transport-gap-without-scaled-demands": Fault(
        "ffi/transport/cpu/results.h",
        "gap += double(p.n + 3 * p.m) * masses.unit * most;",
        "gap += double(p.n + p.m) * masses.unit * most;",
        _TRANSPORT,
    ),
    "transport-demands-not-in-proportion": Fault(
        "ffi/transport/balance.inc.h",
        "const int64_t share = int64_t(double(own.more) * part);",
        "const int64_t share = 0;",
        _TRANSPORT,
    ),
    "transport-sign-of-duals-of-dummies": Fault(
        "jaxmatch/_transport/dummies.py",
        "_shifted(res.row_dual[..., :n], res.col_dual[..., m:], problem.row_mask, xp)",
        "_shifted(res.row_dual[..., :n], -res.col_dual[..., m:], problem.row_mask, xp)",
        "tests/transport/test_transport.py",
    ),
    "transport-dummies-not-dear-enough": Fault(
        "jaxmatch/_transport/dummies.py",
        "xp.where(least < 1 - most, most, 1 - xp.maximum(least, 1 - most))",
        "xp.where(least < 1 - most, most, 0 - xp.maximum(least, 1 - most))",
        _TRANSPORT,
    ),
    "capacity-less-than-all-rows": Fault(
        "jaxmatch/_assignment/capacity.py",
        "cols = xp.minimum(cols, of_rows + 1)",
        "cols = xp.minimum(cols, of_rows - 1)",
        _CAPACITIES,
    ),
    "capacity-less-than-all-rows-in-native-code": Fault(
        "ffi/transport/cpu/capacity_units.h",
        "most_cols = int32_t(u.of_rows + 1)",
        "most_cols = int32_t(u.of_rows - 1)",
        _CAPACITIES,
    ),
    "capacity-duals-of-the-other-part": Fault(
        "ffi/transport/cpu/capacity_results.h",
        "units.least[j] > 0 ? v[2 * j] : v[2 * j + 1]",
        "units.least[j] > 0 ? v[2 * j + 1] : v[2 * j]",
        _CAPACITIES,
    ),
    "capacity-equal-to-the-minimum": Fault(
        "jaxmatch/_assignment/capacity.py",
        "missed = (least > cols).any(-1)",
        "missed = (least >= cols).any(-1)",
        _CAPACITIES,
    ),
    "sparse-search-sign-of-prices": Fault(
        "ffi/sparse_assignment/cpu/search.h",
        "s_.v[size_t(j)] -= by;",
        "s_.v[size_t(j)] += by;",
        _SPARSE,
    ),
    "sparse-columns-that-must-be-matched": Fault(
        "ffi/sparse_assignment/cpu/solver.h",
        "if (s.c.must[j] && s.row4col[j] == kNone) return false;",
        "",
        _SPARSE,
    ),
    "sparse-duals-without-costs-of-columns": Fault(
        "ffi/sparse_assignment/cpu/finish.h",
        "s.v[size_t(k)] + (c.offset.empty() ? 0 : c.offset[size_t(k)]);",
        "s.v[size_t(k)];",
        _SPARSE,
    ),
    "sparse-prices-beyond-the-nearest-end": Fault(
        "ffi/sparse_assignment/cpu/price_updates.h",
        "by = std::min(dist_[i], most);",
        "by = most;",
        "tests/sparse_assignment/test_sparse_ties.py",
    ),
    "grid-cut-of-arcs-inwards": Fault(
        "ffi/grid_cut/cpu/convert.h",
        "if (is_source(i) && !is_source(i + offset)) {",
        "if (!is_source(i) && is_source(i + offset)) {",
        "tests/grid_cut/test_grid_cut.py",
    ),
    "noise-rotation": Fault(
        "ffi/perturbed/noise.h",
        "{13, 15, 26, 6, 17, 29, 16, 24}",
        "{13, 15, 26, 6, 17, 29, 24, 16}",
        _PERTURBED,
    ),
    "jvp-batch-offset": Fault(
        "ffi/perturbed/cpu/jvp.cc",
        "const int32_t* col4row = o.col4row + (b * o.samples + s) * o.n;",
        "const int32_t* col4row = o.col4row + s * o.n;",
        _PERTURBED,
    ),
    # CUDA kernels.
    "k-best-forgets-forbidden-pairs": Fault(
        "ffi/k_best/cpu/tree.h",
        "has = node[parent].forced == node[x].forced;",
        "has = false;",
        "tests/k_best/test_k_best.py",
    ),
    "k-best-bound-too-great": Fault(
        "ffi/k_best/cpu/partition.h",
        "avoid[own] = 0;\n      if",
        "if",
        "tests/k_best/test_k_best.py",
    ),
    "cuda-k-best-spare-row-once": Fault(
        "ffi/k_best/cuda/search.cuh",
        "if (i == s.rows) spare_col = j;",
        "",
        _K_BEST,
    ),
    "cuda-k-best-order-of-children": Fault(
        "ffi/k_best/cuda/partition.cuh",
        "leaves = !kOrdered || owner > t;",
        "leaves = !kOrdered || owner > t + 1;",
        _K_BEST,
    ),
    "cuda-assignment-tie-of-leaving": Fault(
        "ffi/assignment/cuda/augment.cuh",
        "bool drops_out() const { return !(nearest.dist < drop); }",
        "bool drops_out() const { return !(nearest.dist <= drop); }",
        _ASSIGNMENT,
    ),
    "cuda-assignment-sign-of-duals": Fault(
        "ffi/assignment/cuda/augment.cuh",
        "const Key drops = bound - s.reach[j];",
        "const Key drops = s.reach[j] - bound;",
        _ASSIGNMENT,
    ),
    "cuda-assignment-barrier": Fault(
        "ffi/assignment/cuda/augment.cuh",
        "if (g.lane() == 0) slots[g.warp()] = x;\n  g.sync();",
        "if (g.lane() == 0) slots[g.warp()] = x;",
        _ASSIGNMENT,
    ),
    "cuda-matching-claimed-twice": Fault(
        "ffi/matching/cuda/expand.cuh",
        "claimed &= __ffs(same) - 1 == MatchingGrid::lane();",
        "claimed &= same != 0;",
        _MATCHING,
    ),
    "cuda-flow-tally-cleared-while-read": Fault(
        "ffi/common/cuda/grid.cuh",
        "ring_[(step_ + 2) % kTallies]",
        "ring_[(step_ + 3) % kTallies]",
        _FLOW,
    ),
    "cuda-flow-sum-of-one-block": Fault(
        "ffi/common/cuda/grid.cuh",
        "return int(blockDim.x) * blocks(); }",
        "return int(blockDim.x) * blocks() + 1; }",
        _FLOW,
    ),
    "cuda-grid-cut-last-tile": Fault(
        "ffi/grid_cut/cuda/region_push_relabel.cuh",
        "(tiling_.tiles() - block_ + blocks_ - 1) / blocks_",
        "(tiling_.tiles() - block_ + blocks_ - 2) / blocks_",
        _GRID_CUT,
    ),
    # Certificates, which share nothing with solvers.
    "check-assignment-rounding": Fault(
        "jaxmatch/_common/proof.py",
        "return np.nextafter(x, np.asarray(np.inf, x.dtype))",
        "return x",
        _CERTIFICATE,
    ),
    "check-assignment-optional-columns": Fault(
        "jaxmatch/_assignment/certificate.py",
        "complete &= (~self.cols | used | self.cols_optional).all(-1)",
        "complete &= True",
        _CERTIFICATE,
    ),
    "check-flow-of-self-loops": Fault(
        "jaxmatch/_flow/check.py",
        "xp.where(tail != head, capacity, xp.zeros_like(capacity))",
        "capacity",
        "tests/flow/test_flow_check.py",
    ),
    "check-min-cost-flow-cut-of-equal-sums": Fault(
        "jaxmatch/_min_cost_flow/check.py",
        "return side.any() & (more > spare)",
        "return side.any() & (more >= spare)",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_check.py",
    ),
    "check-matching-of-padding": Fault(
        "jaxmatch/_matching/check.py",
        "touched = ~exists | result.row_cover[row]",
        "touched = result.row_cover[row]",
        "tests/matching/test_matching.py tests/matching/test_matching_features.py",
    ),
    # Twins, gradients, estimators, losses.
    "twin-sign-of-duals": Fault(
        "jaxmatch/_assignment/xla_paths.py",
        "s.v + jnp.minimum(dist - length, 0), s.v)",
        "s.v - jnp.minimum(dist - length, 0), s.v)",
        "tests/assignment/test_xla_twin.py",
    ),
    "gradient-of-masked-rows": Fault(
        "jaxmatch/_assignment/solve.py",
        "alone &= problem.row_mask",
        "alone &= True",
        "tests/assignment/test_gradients.py",
    ),
    "gradient-of-capacities-against-costs": Fault(
        "jaxmatch/_min_cost_flow/solve.py",
        "dot += add(jnp.minimum(reduced, 0), tangents.capacity, full)",
        "dot += add(jnp.maximum(reduced, 0), tangents.capacity, full)",
        f"{_MIN_COST_FLOW}/test_min_cost_flow_grad.py",
    ),
    "perturbed-scale-of-others": Fault(
        "jaxmatch/estimators/_linear.py",
        "dot * (rule.num_samples / (rule.num_samples - 1) if others else 1)",
        "dot",
        _ESTIMATORS,
    ),
    "perturbed-noise-of-forbidden-pairs": Fault(
        "jaxmatch/estimators/_linear.py",
        "dot = jnp.where(allowed, jvp_of_mean(oracle, noisy, found, baseline, tangent), 0)",
        "dot = jvp_of_mean(oracle, noisy, found, baseline, tangent)",
        _ESTIMATORS,
    ),
    "box-hull-less-intersection": Fault(
        "jaxmatch/losses/boxes.py",
        "return _ratio(intersection, union) - _ratio(hull - union, hull)",
        "return _ratio(intersection, union) - _ratio(hull - intersection, hull)",
        _LOSSES,
    ),
    "hungarian-output-mask-dropped": Fault(
        "jaxmatch/losses/hungarian.py",
        "row_mask=output_mask,",
        "row_mask=None,",
        _LOSSES,
    ),
}


def copy_tree() -> None:
    """Files of the tree that git knows or would add; those that are as they were keep their time,
    so that little is compiled."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        source, target = ROOT / name, COPY / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for folder in ("ffi", "jaxmatch", "tests"):
        for path in (COPY / folder).rglob("*.*"):
            relative = path.relative_to(COPY)
            ours = "_lib" in relative.parts or "__pycache__" in relative.parts
            if path.is_file() and not ours and str(relative) not in names:
                path.unlink()


def build() -> None:
    """The CPU library, into the copy."""
    folder = COPY / "build" / "native"
    commands = [
        ["cmake", "-S", COPY / "ffi", "-B", folder, "-G", "Ninja", "-DJAXMATCH_CUDA=OFF",
         f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", folder],
        ["cmake", "--install", folder, "--prefix", COPY],
    ]  # fmt: skip
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def run(tests: str) -> tuple[str, str]:
    """What pytest says of the copy, and its last lines."""
    data = ROOT.parent / "shared" / "data"
    environment = {"JAX_PLATFORMS": "cpu", "JAXMATCH_DATA": str(data)} | os.environ
    environment |= {"PYTHONPATH": str(COPY), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests.split()],
            cwd=COPY, env=environment, capture_output=True, text=True, timeout=_TIMEOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "found", "it does not end"
    lines = done.stdout.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode == 0:
        return "NOT FOUND", lines[-1]
    if done.returncode == 1 or done.returncode < 0:  # a failure, or the end of the process
        return "found", failed[0] if failed else f"pytest ended with {done.returncode}"
    return "NOT RUN", "\n".join(lines[-5:])


def as_make_test(tests: str) -> str:
    """The folders of these tests, and conformance, without most of the slow tests."""
    folders = {str(Path(name).parent) for name in tests.split() if name.startswith("tests/")}
    return " ".join(["tests/conformance", *sorted(folders), "--share", "64"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="faults whose names begin so; all if there is none"
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--as-make-test", action="store_true", help="run what `make test` runs")
    args = parser.parse_args()
    wanted = {
        name: fault
        for name, fault in FAULTS.items()
        if not args.names or name.startswith(tuple(args.names))
    }
    if args.list:
        for name, fault in wanted.items():
            print(f"{name:42} {fault.file}: {fault.tests}")
        return
    copy_tree()
    for name, fault in wanted.items():
        count = (COPY / fault.file).read_text().count(fault.old)
        if count != 1:
            raise SystemExit(f"{name}: {fault.file} has {count} of {fault.old!r}, not one")
    missed = []
    built = False  # from the sources as they are
    for name, fault in wanted.items():
        start = time.monotonic()
        path = COPY / fault.file
        text = path.read_text()
        native = fault.file.startswith("ffi/") and not fault.file.endswith((".cu", ".cuh"))
        try:
            path.write_text(text.replace(fault.old, fault.new))
            if native or not built:
                build()
            said, where = run(as_make_test(fault.tests) if args.as_make_test else fault.tests)
        finally:
            path.write_text(text)
        built = not native
        if said != "found":
            missed.append(name)
        print(f"{said:9} {time.monotonic() - start:6.0f} s  {name:42} {where}", flush=True)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} faults were found")
    if missed:
        raise SystemExit(f"not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()
