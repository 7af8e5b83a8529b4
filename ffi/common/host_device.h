// JAXMATCH_HOST_DEVICE marks functions that run on host and device. JAXMATCH_DEVICE marks functions
// that nvcc compiles for the device only, and other compilers for the host.
#ifndef JAXMATCH_HOST_DEVICE_H_
#define JAXMATCH_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define JAXMATCH_HOST_DEVICE __host__ __device__
#define JAXMATCH_DEVICE __device__
#else
#define JAXMATCH_HOST_DEVICE
#define JAXMATCH_DEVICE
#endif

#endif  // JAXMATCH_HOST_DEVICE_H_
