// Memory of the augmenting paths between few columns (few_columns.h). A part is the mass of one row
// that one column holds. Its detour to another column is the extra cost of moving it there.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Mass of a row that a column holds.
struct Part {
  int64_t mass;
  int32_t row, col;     // row: kNone if the part is unused
  int32_t next;         // the next part of the same row, or the next unused part
  int32_t block, slot;  // the place in the blocks of the column
};

// A block of parts of a column. PathMemory::detours has the least of their detours to each column.
struct PartBlock {
  static constexpr int32_t kSize = 16;
  int32_t count, next;  // next: block of the column; only the first one may have room
  int32_t part[kSize];
};

// Memory of ColumnPaths.
struct PathMemory {
  Part* parts;
  int32_t most_parts;
  PartBlock* blocks;
  double* detours;  // [blocks, stride] least detour to each column
  int32_t stride;   // number of columns, with padding
  int32_t* of_row;  // [rows] first part of the row
  int32_t* first;   // [cols] first block of the column
  double* lengths;  // [cols, stride] lengths of the arcs between columns
  double *near, *open, *from, *far;
  int64_t *held, *supply, *demand;  // [cols] mass held; supply, demand: masses of a sample

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
