# Options of a CPU library with sanitizers, JAXMATCH_SANITIZE. Python has to preload their runtime,
# as `python -m sanitize` in tests does. libstdc++ is not linked in, for the sanitizers to see its
# exceptions and threads.
set(sanitizers -fsanitize=${JAXMATCH_SANITIZE})
target_link_options(jaxmatch_options INTERFACE ${sanitizers})
if(JAXMATCH_SANITIZE MATCHES "undefined")
  # GCC 12 spoils programs that it checks for both shifts and bounds: in
  #     x |= uint32_t(slack[c] == 0) << bit;
  # with slack a reference to an array, the shift reads the index c, uninitialised, before the
  # bounds are checked: without optimisation too, and each of the two alone is right. It was a loop
  # without end in assignment/large/hungarian/passes.h. The sanitizer of addresses finds what
  # leaves an array, so shifts are checked. It also finds null pointers and small objects; checks of
  # those take half of the time of compilation.
  list(APPEND sanitizers -fno-sanitize=bounds,null,object-size,vptr -fno-sanitize-recover=all)
  list(APPEND sanitizers -fsanitize=float-cast-overflow)
endif()
target_compile_options(jaxmatch_options INTERFACE -g1 -fno-omit-frame-pointer ${sanitizers})
