# The CPU library. Solvers are compiled once for each instruction set that a handler may choose. If
# several files contain the same inline function, the linker keeps the copy in the first file. So
# the portable files come first, because their copy also runs on a machine without AVX.
jaxmatch_library(jaxmatch_cpu
  common/cpu/noop.cc
  common/cpu/interrupt.cc
  common/cpu/host_call.cc
  common/cpu/instruction_set.cc
  assignment/cpu/handler.cc
  assignment/cpu/points_handler.cc
  assignment/cpu/portable.cc
  assignment/cpu/pick.cc
  assignment/large/cpu/handler.cc
  assignment/large/cpu/sharded_handler.cc
  flow/cpu/handler.cc
  flow/cpu/stencil_handler.cc
  grid_cut/cpu/handler.cc
  grid_cut/cpu/many.cc
  k_best/cpu/handler.cc
  k_best/cpu/pick.cc
  k_best/cpu/portable.cc
  matching/cpu/handler.cc
  min_cost_flow/cpu/handler.cc
  nearest/cpu/handler.cc
  perturbed/cpu/noise_fill.cc
  perturbed/cpu/assignments.cc
  perturbed/cpu/jvp.cc
  sparse_assignment/cpu/handler.cc
  sparse_assignment/cpu/near_handler.cc
  sparse_assignment/cpu/solve.cc
  transport/cpu/capacities_handler.cc
  transport/cpu/handler.cc
  transport/cpu/pick.cc
  transport/cpu/points_handler.cc
  transport/cpu/portable.cc)
# Files whose loops over noise or costs are vectorised only with the flags below. No result depends
# on these flags.
set(vectorised perturbed/cpu/noise_fill.cc)
jaxmatch_instances(jaxmatch_cpu assignment/large/cpu/solve.h ${JAXMATCH_LARGE_COSTS})
list(APPEND vectorised ${instances})
set(sharded_costs ${JAXMATCH_LARGE_COSTS})
list(REMOVE_ITEM sharded_costs ${narrow_costs})
jaxmatch_instances(jaxmatch_cpu assignment/large/cpu/sharded.h ${sharded_costs})
list(APPEND vectorised ${instances})
set(left_out ${costs_of_large_problems})
list(REMOVE_ITEM left_out ${JAXMATCH_LARGE_COSTS})
if(left_out)
  list(JOIN left_out ")\nJAXMATCH_LEFT_OUT(" left_out)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/units/left_out.cc"
       CONTENT "#include \"assignment/large/cpu/left_out.h\"\nJAXMATCH_LEFT_OUT(${left_out})\n")
  target_sources(jaxmatch_cpu PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/units/left_out.cc")
endif()
if(NOT JAXMATCH_SANITIZE)
  set_source_files_properties(${vectorised}
    PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math")
endif()
find_package(Threads REQUIRED)
target_link_libraries(jaxmatch_cpu PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

include(CheckCXXCompilerFlag)
function(jaxmatch_cpu_variant name define flags)
  if(NOT name IN_LIST JAXMATCH_VARIANTS OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    return()
  endif()
  string(REPLACE ";" " " joined "${flags}")
  check_cxx_compiler_flag("${joined}" ${define})
  if(NOT ${define})
    return()
  endif()
  foreach(problem assignment k_best transport)
    set(source ${problem}/cpu/${name}.cc)
    target_sources(jaxmatch_cpu PRIVATE ${source})
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
    set_property(SOURCE ${problem}/cpu/pick.cc APPEND PROPERTY COMPILE_DEFINITIONS ${define}=1)
    if(name STREQUAL "avx512" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC's own AVX-512 header triggers these two warnings (GCC bug 105593).
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
                   -Wno-maybe-uninitialized -Wno-uninitialized)
    endif()
  endforeach()
endfunction()

jaxmatch_cpu_variant(avx2 JAXMATCH_HAVE_AVX2 "-mavx2;-mfma;-mf16c")
jaxmatch_cpu_variant(avx512 JAXMATCH_HAVE_AVX512
  "-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl;-mfma;-mf16c")
