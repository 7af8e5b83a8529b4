# The CUDA library.
set(with_cuda ${JAXMATCH_CUDA})
if(JAXMATCH_CUDA STREQUAL "AUTO")
  set(with_cuda OFF)
  # Converts the compute capability of each GPU, such as "8.0", to an architecture, such as 80-real.
  # Without a GPU or a driver, the list `present` is empty.
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE present ERROR_QUIET RESULT_VARIABLE failed)
  if(failed STREQUAL "0")
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" present "${present}")
    list(REMOVE_DUPLICATES present)
    list(TRANSFORM present REPLACE "\\." "")
    list(FILTER present INCLUDE REGEX "^([89][0-9]|[0-9][0-9][0-9]+)$") # 8.0 and later
    list(TRANSFORM present APPEND "-real")
  else()
    set(present "")
  endif()
  if(present)
    include(CheckLanguage)
    check_language(CUDA)
    set(with_cuda ${CMAKE_CUDA_COMPILER})
    if(NOT with_cuda)
      unset(CMAKE_CUDA_COMPILER CACHE) # look for a compiler again next time
    elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES ${present})
    endif()
  endif()
endif()
if(with_cuda)
  # If no architectures are set, uses those in CUDAARCHS. Without CUDAARCHS, uses all supported GPU
  # generations.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
      set(forget_architectures ON)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
    endif()
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    message(FATAL_ERROR "The CUDA library needs nvcc 12.4 or later, found "
                        "${CMAKE_CUDA_COMPILER_VERSION}. Set JAXMATCH_CUDA=OFF for a library "
                        "without CUDA.")
  endif()
  # Host code prepares calls and launches kernels. This affects it alone, and makes it smaller.
  string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
  # Device code is compressed. The driver unpacks it when a kernel is first used.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
    set(cuda_compression -Xfatbin=-compress-all)
  else()
    set(cuda_compression --compress-mode=size)
  endif()
  if(forget_architectures) # otherwise the next configuration would reuse this CUDAARCHS
    unset(CMAKE_CUDA_ARCHITECTURES CACHE)
  endif()
  jaxmatch_library(jaxmatch_cuda
    flow/cuda/handler.cu
    k_best/cuda/handler.cu
    matching/cuda/handler.cu
    min_cost_flow/cuda/handler.cu)
  # These handlers share one source file: parsing the headers of CUDA and XLA takes longer than
  # compiling one of the handlers.
  set(handlers "")
  foreach(handler common/cuda/noop assignment/cuda/handler assignment/large/cuda/handler
          assignment/large/cuda/sharded_handler grid_cut/cuda/handler nearest/cuda/handler
          perturbed/cuda/assignments perturbed/cuda/jvp sparse_assignment/cuda/handler
          sparse_assignment/cuda/near_handler transport/cuda/handler)
    string(APPEND handlers "#include \"${handler}.cu\"\n")
  endforeach()
  jaxmatch_unit(jaxmatch_cuda handlers .cu "${handlers}")
  jaxmatch_instances(jaxmatch_cuda assignment/cuda/warp.cuh Floats Doubles Integers)
  jaxmatch_instances(jaxmatch_cuda assignment/cuda/auction.cuh
                     TOGETHER Floats Doubles Integers LongIntegers)
  jaxmatch_instances(jaxmatch_cuda assignment/cuda/block.cuh Floats Doubles Integers LongIntegers)
  jaxmatch_instances(jaxmatch_cuda transport/cuda/kernel.cuh
                     TOGETHER Floats NarrowFloats Doubles Integers LongIntegers)
  jaxmatch_instances(jaxmatch_cuda transport/cuda/kernel.cuh TOGETHER FloatPoints DoublePoints)
  jaxmatch_instances(jaxmatch_cuda transport/cuda/small.cuh
                     TOGETHER Floats Doubles Integers)
  jaxmatch_instances(jaxmatch_cuda sparse_assignment/cuda/kernel.cuh
                     TOGETHER kFewThreads kManyThreads)
  foreach(form solve sharded)
    foreach(costs stored_costs point_costs)
      set(types ${${costs}})
      if(form STREQUAL "sharded")
        list(REMOVE_ITEM types ${narrow_costs})
      endif()
      jaxmatch_instances(jaxmatch_cuda assignment/large/cuda/${form}.cuh TOGETHER ${types})
    endforeach()
  endforeach()
  jaxmatch_instances(jaxmatch_cuda grid_cut/cuda/launch.cuh TOGETHER "int32_t, int32_t"
                     "int32_t, int64_t" "int64_t, int64_t" "float, float" "double, double")
  # The CUDA runtime is linked statically, so that the library also loads on a machine without
  # CUDA's libraries or a driver.
  set_target_properties(jaxmatch_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  message(STATUS "CUDA library: architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA library: not built (JAXMATCH_CUDA=${JAXMATCH_CUDA})")
endif()
