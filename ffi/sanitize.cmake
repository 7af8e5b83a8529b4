# Options of a CPU library with the sanitizers that JAXMATCH_SANITIZE names. Python has to preload
# their runtime, as `python -m sanitize` in tests does. libstdc++ is linked dynamically, so that the
# sanitizers see its exceptions and threads.
set(sanitizers -fsanitize=${JAXMATCH_SANITIZE})
target_link_options(jaxmatch_options INTERFACE ${sanitizers})
if(JAXMATCH_SANITIZE MATCHES "undefined")
  # GCC 12 miscompiles code that it checks for both shifts and bounds. In
  #     x |= uint32_t(slack[c] == 0) << bit;
  # with slack a reference to an array, the shift reads the index c before it is initialised, even
  # without optimisation. With either check alone the code is correct. This caused an infinite loop
  # in assignment/large/hungarian/passes.h. So shifts are checked and bounds are not, as
  # AddressSanitizer finds accesses outside an array. AddressSanitizer also finds null pointers and
  # objects that are too small; the checks for these would take half of the compile time.
  list(APPEND sanitizers -fno-sanitize=bounds,null,object-size,vptr -fno-sanitize-recover=all)
  list(APPEND sanitizers -fsanitize=float-cast-overflow)
endif()
target_compile_options(jaxmatch_options INTERFACE -g1 -fno-omit-frame-pointer ${sanitizers})
