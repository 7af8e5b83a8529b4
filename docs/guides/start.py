"""The first lines of each kind of problem, as on the first page."""

# --8<-- [start:assignment]
import jax, jax.numpy as jnp, jaxmatch as jm

cost = jax.random.uniform(jax.random.key(0), (64, 100, 20))  # 64 problems
res = jax.jit(jm.solve_assignment)(cost)  # one native call

res.col4row  # i32[64, 100], the column of each row, -1 where unmatched
res.cost  # f32[64], the optimum
res.row_dual, res.col_dual, res.gap, res.status  # its proof, and how it ended
jax.grad(lambda c: jm.solve_assignment(c).cost.sum())(cost)  # permutations
jm.check_assignment(cost, res).optimal  # verified without trusting the solver

row_ind, col_ind = jm.linear_sum_assignment(cost[0])  # as scipy and optax
# --8<-- [end:assignment]
assert bool(jm.check_assignment(cost, res).optimal.all())
assert jnp.allclose(cost[0][row_ind, col_ind].sum(), res.cost[0])

# --8<-- [start:sparse]
rows, cols = [0, 0, 1, 1, 2], [0, 1, 0, 2, 2]  # costs on the edges of a graph
graph, edge_cost = jm.BipartiteGraph.from_edges_with_cost(
    rows, cols, jnp.array([4.0, 1.0, 2.0, 5.0, 2.0]), shape=(3, 3)
)
res = jax.jit(jm.solve_sparse_assignment)(graph, edge_cost)
jm.check_sparse_assignment(graph, edge_cost, res).optimal

best = jm.k_best_assignments(cost, k=10)  # best.cost is f32[64, 10], in order
jm.bottleneck_assignment(cost).bottleneck  # f32[64], the smallest maximum cost
# --8<-- [end:sparse]
assert res.cost == 5 and best.cost.shape == (64, 10)

# --8<-- [start:transport]
supply, demand = jnp.full(100, 1 / 100), jnp.full(20, 1 / 20)  # or [64, 100]
res = jax.jit(jm.solve_transport)(cost, supply, demand)  # no epsilon

res.rows, res.cols, res.mass  # the plan: at most n + m - 1 pairs; res.todense()
jm.solve_transport(cost, supply, demand, partial=0.8)  # move 80 % of the mass
jm.solve_capacitated_assignment(cost, col_capacity=9, col_minimum=4)  # 4 to 9 rows a column
# --8<-- [end:transport]
assert bool((res.status == jm.Status.OPTIMAL).all())

# --8<-- [start:matching]
rows, cols = [0, 0, 1, 2, 2], [0, 1, 0, 0, 1]
graph = jm.BipartiteGraph.from_edges(rows, cols, shape=(3, 3))  # or from_scipy, ...
res = jax.jit(jm.maximum_bipartite_matching)(graph)

res.col4row, res.row4col, res.cardinality  # a maximum matching
res.row_cover, res.col_cover  # its proof: as many vertices, on every edge
jm.check_matching(graph, res).optimal
# --8<-- [end:matching]
assert res.cardinality == 2

# --8<-- [start:flow]
tails, heads = [0, 0, 1, 1, 2], [1, 2, 2, 3, 3]
network = jm.FlowNetwork.from_edges(tails, heads, num_nodes=4)
capacity = jnp.array([3.0, 1.0, 1.0, 1.5, 4.0])  # or [..., 5]: one network
res = jax.jit(jm.maximum_flow)(network, capacity, 0, 3)

res.value, res.flow, res.source_side  # its gradient is the minimum cut
jm.check_flow(network, capacity, 0, 3, res).optimal

image = jax.random.uniform(jax.random.key(1), (32, 48))
jm.grid_cut(image, 1 - image, jnp.full((2, 32, 48), 0.2))  # images and volumes
# --8<-- [end:flow]
assert res.value == 3.5

# --8<-- [start:losses]
x = jax.random.normal(jax.random.key(2), (8, 50, 3))  # 8 pairs of clouds
y = jax.random.normal(jax.random.key(3), (8, 60, 3))
distance = jm.losses.earth_mover_distance(x, y)  # f32[8], exact, with gradients to all points

rule = jm.estimators.Identity()  # a gradient of the solution itself
matrix = jm.assignment_matrix(cost, estimator=rule)  # f32[64, 100, 20]
# --8<-- [end:losses]
assert distance.shape == (8,) and matrix.shape == cost.shape
