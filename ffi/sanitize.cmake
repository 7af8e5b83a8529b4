# Options of a CPU library with the sanitizers that JAXMATCH_SANITIZE names. Python must preload the
# sanitizers' runtime libraries, as `python -m sanitize` in tests does. libstdc++ is linked
# dynamically, so that the sanitizers see its exceptions and threads.
set(sanitizers -fsanitize=${JAXMATCH_SANITIZE})
target_link_options(jaxmatch_options INTERFACE ${sanitizers})
if(JAXMATCH_SANITIZE MATCHES "undefined")
  # GCC 12 miscompiles code that it checks for both shifts and bounds. In
  #     x |= uint32_t(slack[c] == 0) << bit;
  # where `slack` is a reference to an array, the shift reads the index c before c is initialised,
  # even without optimisation. With only one of the two checks the code is correct. This caused an
  # infinite loop in assignment/large/hungarian/passes.h. So shifts are checked and bounds are not:
  # AddressSanitizer also finds accesses outside an array. It also finds accesses through null
  # pointers, and accesses beyond objects that are too small. The separate checks `null` and
  # `object-size` would take half of the compile time.
  list(APPEND sanitizers -fno-sanitize=bounds,null,object-size,vptr -fno-sanitize-recover=all)
  list(APPEND sanitizers -fsanitize=float-cast-overflow)
endif()
target_compile_options(jaxmatch_options INTERFACE -g1 -fno-omit-frame-pointer ${sanitizers})
