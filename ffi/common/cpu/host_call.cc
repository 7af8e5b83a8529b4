// Calls a handler of this library without XLA. Nothing is traced or compiled, and the handler
// writes the results to arrays of the caller. The call frame is the one that XLA would build, for
// the version of the FFI API that the handlers were compiled with.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "common/cpu/host_pool.h"
#include "common/cpu/interrupt.h"
#include "common/handler.h"

struct XLA_FFI_Error {
  std::string message;
  XLA_FFI_Error_Code code;
};

namespace jaxmatch {
namespace {

// --- The part of XLA's runtime that handlers use. There is no function that reads the message of
// an error, because handlers never call it.

XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->message, args->errc};
}
void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  HostPool::get().schedule(args->task, args->data);
  return nullptr;
}
XLA_FFI_Error* num_threads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = HostPool::get().num_threads();
  return nullptr;
}

const XLA_FFI_Api* host_api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api a{};
    a.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    a.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                     XLA_FFI_API_MINOR};
    a.XLA_FFI_Error_Create = create_error;
    a.XLA_FFI_Error_Destroy = destroy_error;
    a.XLA_FFI_ThreadPool_Schedule = schedule;
    a.XLA_FFI_ThreadPool_NumThreads = num_threads;
    return a;
  }();
  return &api;
}

// --- The description of a call, as jaxmatch/_ffi/host_call.py writes it.

// The XLA type of an array, from NumPy's letter for the kind of its numbers and their size in
// bytes.
XLA_FFI_DataType data_type(int64_t kind, int64_t bytes) {
  switch (kind << 8 | bytes) {
    case 'b' << 8 | 1:
      return XLA_FFI_DataType_PRED;
    case 'i' << 8 | 4:
      return XLA_FFI_DataType_S32;
    case 'i' << 8 | 8:
      return XLA_FFI_DataType_S64;
    case 'u' << 8 | 4:
      return XLA_FFI_DataType_U32;
    case 'f' << 8 | 2:
      return XLA_FFI_DataType_F16;
    case 'f' << 8 | 4:
      return XLA_FFI_DataType_F32;
    case 'f' << 8 | 8:
      return XLA_FFI_DataType_F64;
    case 'V' << 8 | 2:
      return XLA_FFI_DataType_BF16;
    default:
      return XLA_FFI_DataType_INVALID;
  }
}

class CallFrame {
 public:
  // `plan` is a list of words of 8 bytes:
  // - the numbers of arguments, results and attributes;
  // - for each array: its kind, the bytes of an element, its rank and its dimensions;
  // - for each attribute: its name as a text and its kind, then a text if the kind is 's', else the
  //   bytes and the value of a number.
  // A text is its length in bytes, followed by its bytes, padded to whole words. `data` has the
  // addresses of the arrays.
  CallFrame(const int64_t* plan, void* const* data) {
    const int64_t args = *plan++, rets = *plan++, attrs = *plan++;
    buffers_.resize(args + rets);
    for (XLA_FFI_Buffer& b : buffers_) {
      b.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      b.extension_start = nullptr;
      b.dtype = data_type(plan[0], plan[1]);
      b.rank = plan[2];
      b.dims = const_cast<int64_t*>(plan + 3);
      b.data = *data++;
      plan += 3 + b.rank;
      pointers_.push_back(&b);
    }
    arg_types_.assign(args, XLA_FFI_ArgType_BUFFER);
    ret_types_.assign(rets, XLA_FFI_RetType_BUFFER);
    read_attributes(plan, attrs);
    frame_.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame_.api = host_api();
    frame_.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame_.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, args, arg_types_.data(), pointers_.data()};
    frame_.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, rets, ret_types_.data(),
                   pointers_.data() + args};
    frame_.attrs = {
        XLA_FFI_Attrs_STRUCT_SIZE, nullptr, attrs, attr_types_.data(), name_pointers_.data(),
        attr_pointers_.data()};
  }
  XLA_FFI_CallFrame* get() { return &frame_; }

 private:
  void read_attributes(const int64_t* plan, int64_t count) {
    attr_types_.assign(count, XLA_FFI_AttrType_SCALAR);
    names_.resize(count);
    texts_.resize(count);
    scalars_.resize(count);
    const auto read_text = [&] {
      const size_t length = size_t(*plan++);
      const XLA_FFI_ByteSpan text{reinterpret_cast<const char*>(plan), length};
      plan += (length + 7) / 8;
      return text;
    };
    for (int64_t k = 0; k < count; ++k) {
      names_[k] = read_text();
      name_pointers_.push_back(&names_[k]);
      if (*plan == 's') {
        ++plan;
        texts_[k] = read_text();
        attr_types_[k] = XLA_FFI_AttrType_STRING;
        attr_pointers_.push_back(&texts_[k]);
      } else {
        scalars_[k] = {data_type(plan[0], plan[1]), const_cast<int64_t*>(plan + 2)};
        plan += 3;
        attr_pointers_.push_back(&scalars_[k]);
      }
    }
  }

  XLA_FFI_CallFrame frame_{};
  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<XLA_FFI_ArgType> arg_types_;
  std::vector<XLA_FFI_RetType> ret_types_;
  std::vector<XLA_FFI_AttrType> attr_types_;
  std::vector<XLA_FFI_ByteSpan> names_, texts_;
  std::vector<XLA_FFI_Scalar> scalars_;
  std::vector<XLA_FFI_ByteSpan*> name_pointers_;
  std::vector<void*> pointers_, attr_pointers_;
};

}  // namespace
}  // namespace jaxmatch

// Returns 0 on success, -1 if Ctrl-C ended the call, or else XLA's error code. On an error, also
// writes its text to `message`, which has `size` bytes.
extern "C" JAXMATCH_EXPORT int jaxmatch_host_call(XLA_FFI_Handler* handler, const int64_t* plan,
                                                  void* const* data, char* message, int64_t size) {
  const auto fail = [&](const char* what, int code) {
    std::snprintf(message, size_t(size), "%s", what);
    return code;
  };
  try {
    jaxmatch::CallFrame frame(plan, data);
    bool& interrupted = jaxmatch::InterruptScope::last_interrupted();
    interrupted = false;
    XLA_FFI_Error* const error = handler(frame.get());
    if (error == nullptr) return interrupted ? -1 : 0;
    const int code = fail(error->message.c_str(), int(error->code));
    delete error;
    return code;
  } catch (const std::bad_alloc&) {
    return fail("no memory for a call", XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  }
}
