/* Included by `cc-hardened` before the engine's C file. Writes what the compiler itself knows of the flags to a section
 * that is not loaded and that the linker keeps. `bins/branchyard/src/build_info.rs` reads it. */
#define BRANCHYARD_RECORD(line) __asm__(".pushsection .branchyard.c,\"\",@progbits\n\t.ascii \"" line "\\n\"\n\t.popsection\n")

#ifdef __clang__
BRANCHYARD_RECORD("compiler clang " __clang_version__);
#else
BRANCHYARD_RECORD("compiler gcc " __VERSION__);
#endif

#ifdef __SSP_STRONG__
BRANCHYARD_RECORD("-fstack-protector-strong on");
#else
BRANCHYARD_RECORD("-fstack-protector-strong off");
#endif

#if defined _FORTIFY_SOURCE && _FORTIFY_SOURCE >= 3 && defined __OPTIMIZE__
BRANCHYARD_RECORD("-D_FORTIFY_SOURCE=3 on");
#else
BRANCHYARD_RECORD("-D_FORTIFY_SOURCE=3 off");
#endif

#ifdef BRANCHYARD_TRIVIAL_AUTO_VAR_INIT_ZERO
BRANCHYARD_RECORD("-ftrivial-auto-var-init=zero on");
#else
BRANCHYARD_RECORD("-ftrivial-auto-var-init=zero off");
#endif

#undef BRANCHYARD_RECORD
