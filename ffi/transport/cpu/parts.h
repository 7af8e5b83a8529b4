// Memory of the augmenting paths between few columns (few_columns.h). A part is the mass of one row
// that one column holds. Its detour to another column is the extra cost, per unit of mass, of
// moving it there.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// The mass of one row that one column holds.
struct Part {
  int64_t mass;
  int32_t row, col;     // row: kNone if the part is unused
  int32_t next;         // the next part of the same row, or the next unused part
  int32_t block, slot;  // its PartBlock, and its index in this block
};

// A block of at most kSize parts of one column. PathMemory::detours has, for each other column, the
// least detour of these parts.
struct PartBlock {
  static constexpr int32_t kSize = 16;
  // `next`: the next block of the column. Only the first block of a column may have room.
  int32_t count, next;
  int32_t part[kSize];
};

// Memory of ColumnPaths.
struct PathMemory {
  Part* parts;
  int32_t most_parts;
  PartBlock* blocks;
  double* detours;  // [blocks, stride] for each block, the least detour to each column
  int32_t stride;   // number of columns, with padding
  int32_t* of_row;  // [rows] the row's first part
  int32_t* first;   // [cols] the column's first block
  double* lengths;  // [cols, stride] length of each arc: the least detour of the column's parts
  // [stride] state of the search in ColumnPaths::nearest().
  double *near, *open, *from, *far;
  // held: [cols] mass that each column holds. supply, demand: [rows], [cols] masses of a sample.
  int64_t *held, *supply, *demand;

  void allocate(int32_t rows, int32_t cols, int32_t width, Stack* s) {
    stride = (cols + width - 1) / width * width;
    most_parts = 2 * rows + 64;
    const int32_t most_blocks = most_parts / PartBlock::kSize + cols + 1;
    parts = s->take<Part>(most_parts);
    blocks = s->take<PartBlock>(most_blocks);
    detours = s->take<double>(int64_t(most_blocks) * stride);
    of_row = s->take<int32_t>(rows);
    first = s->take<int32_t>(cols);
    lengths = s->take<double>(int64_t(cols) * stride);
    near = s->take<double>(stride);
    open = s->take<double>(stride);
    from = s->take<double>(stride);
    far = s->take<double>(stride);
    held = s->take<int64_t>(cols);
    supply = s->take<int64_t>(rows);
    demand = s->take<int64_t>(cols);
  }
};
