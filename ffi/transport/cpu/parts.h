// The parts of rows that few columns hold, and the memory of the paths between these columns.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Mass of a row that a column holds.
struct Part {
  int64_t mass;
  int32_t row, col;     // row: kNone if not in use
  int32_t next;         // of the same row; in the list of unused ones, of these
  int32_t block, slot;  // the place among the parts of the column
};

// Some parts of a column, with the least of their detours to each other column.
struct PartBlock {
  static constexpr int32_t kSize = 16;
  int32_t count, next;  // all blocks of a column but its first are full
  int32_t part[kSize];
};

// Memory of ColumnPaths.
struct PathMemory {
  Part* parts;
  int32_t most_parts;
  PartBlock* blocks;
  double* detours;  // [blocks, stride]
  int32_t stride;   // padded columns
  int32_t* of_row;  // [rows] the first part
  int32_t* first;   // [cols] the first block
  double* lengths;  // [cols, stride] of arcs
  double *near, *open, *from, *far;
  int64_t *held, *supply, *demand;  // supply, demand: of a sample

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
