// A failing disk for one process: preloaded into the gateway, it stands between node (with its SQLite) and libc and makes
// chosen calls below the state folder fail. The test arms it through a small shared file (test/support/io-faults.ts) while
// the process runs, so one process meets many faults in a row. Everything outside the state folder goes through untouched.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

// What a call does; the test chooses by these which calls a fault can hit.
enum { DATA, SYNC, OPEN, NAME, CLASSES };

// The shared file. Its layout is known to test/support/io-faults.ts.
struct control {
  uint32_t classes;       // bit set of the classes that count; 0 = disarmed
  uint32_t skip;          // of those, so many go through first
  uint32_t failures;      // then so many fail
  int32_t error;          // with this errno; below 0: the process dies there instead
  uint32_t torn;          // but the first of them writes half of its bytes, as on a disk that fills up right there
  uint32_t counted;       // calls of the armed classes since it was armed
  uint32_t failed;        // of those, how many failed
  uint32_t seen[CLASSES]; // every call since it was armed, by class
  char first[256];        // the first call that failed: "pwrite64 <path>"
};

static struct control *control;
static const char *folder; // the state folder
static size_t folder_length;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("IO_FAULTS_CONTROL");
  folder = getenv("HERALD_STATE_DIR");
  // Programs the gateway starts are not meant.
  unsetenv("LD_PRELOAD");
  if (path == NULL || folder == NULL) return;
  folder = strdup(folder);
  folder_length = strlen(folder);
  int fd = REAL(open)(path, O_RDWR);
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) control = mapped;
}

static int is_below(const char *path) {
  return strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || path[folder_length] == '\0');
}

// Counts the call. 0: it goes through; n: it is the n-th that is to fail.
static uint32_t hit(int class, const char *call, const char *path) {
  __atomic_fetch_add(&control->seen[class], 1, __ATOMIC_SEQ_CST);
  if ((control->classes & (1u << class)) == 0) return 0;
  uint32_t index = __atomic_fetch_add(&control->counted, 1, __ATOMIC_SEQ_CST);
  if (index < control->skip || index - control->skip >= control->failures) return 0;
  uint32_t failed = __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
  if (failed == 1) snprintf(control->first, sizeof control->first, "%s %s", call, path);
  if (control->error < 0) raise(SIGKILL);
  errno = control->error;
  return failed;
}

static uint32_t path_fails(int class, const char *call, const char *path) {
  return control != NULL && path != NULL && is_below(path) ? hit(class, call, path) : 0;
}

static uint32_t fd_fails(int class, const char *call, int fd) {
  char link[64], path[4096];
  if (control == NULL) return 0;
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  errno = saved;
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_below(path) ? hit(class, call, path) : 0;
}

// How much of a write goes through; 0 = it fails.
static size_t part(int fd, const char *call, size_t size) {
  uint32_t failed = fd_fails(DATA, call, fd);
  return failed == 0 ? size : control->torn && failed == 1 ? size / 2 : 0;
}

ssize_t write(int fd, const void *bytes, size_t size) {
  size_t length = part(fd, "write", size);
  return length == 0 && size > 0 ? -1 : REAL(write)(fd, bytes, length);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
  size_t length = part(fd, "pwrite64", size);
  return length == 0 && size > 0 ? -1 : REAL(pwrite64)(fd, bytes, length, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  return fd_fails(DATA, "writev", fd) ? -1 : REAL(writev)(fd, parts, count);
}

int ftruncate64(int fd, off64_t size) { return fd_fails(DATA, "ftruncate64", fd) ? -1 : REAL(ftruncate64)(fd, size); }

int fsync(int fd) { return fd_fails(SYNC, "fsync", fd) ? -1 : REAL(fsync)(fd); }

int fdatasync(int fd) { return fd_fails(SYNC, "fdatasync", fd) ? -1 : REAL(fdatasync)(fd); }

// A mode follows the flags only when a file may be made.
#define MODE(flags)                                                                                                    \
  mode_t mode = 0;                                                                                                     \
  if (flags & (O_CREAT | O_TMPFILE)) {                                                                                 \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode = va_arg(rest, mode_t);                                                                                       \
    va_end(rest);                                                                                                      \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return path_fails(OPEN, "open", path) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return path_fails(OPEN, "open64", path) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
  MODE(flags)
  return path_fails(OPEN, "openat", path) ? -1 : REAL(openat)(at, path, flags, mode);
}

int rename(const char *from, const char *to) { return path_fails(NAME, "rename", from) ? -1 : REAL(rename)(from, to); }

int link(const char *from, const char *to) { return path_fails(NAME, "link", from) ? -1 : REAL(link)(from, to); }

int unlink(const char *path) { return path_fails(NAME, "unlink", path) ? -1 : REAL(unlink)(path); }

int mkdir(const char *path, mode_t mode) { return path_fails(NAME, "mkdir", path) ? -1 : REAL(mkdir)(path, mode); }
