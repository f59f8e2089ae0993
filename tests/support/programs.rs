//! Programs to record, as source.

/// Functions with names to look for, and the clock, which is read in the vdso.
pub const C: &str = "
#include <time.h>
volatile int sink;
__attribute__((noinline)) static void leaf(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) static void clock_of(int n) {
  struct timespec t; for (int i = 0; i < n; i++) { clock_gettime(CLOCK_MONOTONIC, &t); sink += t.tv_nsec; } }
__attribute__((noinline)) static void middle(int n) { leaf(n); clock_of(n / 20); sink++; }
int main(void) { for (int i = 0; i < 40; i++) middle(1000000); return 0; }
";

/// Templates, closures, operators.
pub const CXX: &str = "
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace shop {
template <typename T, int N> struct Cart {
  std::map<std::string, std::vector<T>> lines;
  __attribute__((noinline)) void add(const std::string& name, T value) { lines[name].push_back(value); }
  __attribute__((noinline)) T sum(const std::function<T(T)>& of) const {
    T all = N; for (auto& l : lines) for (auto& v : l.second) all += of(v); return all; }
  __attribute__((noinline)) Cart& operator+=(const Cart& o) {
    for (auto& l : o.lines) for (auto v : l.second) add(l.first, v); return *this; }
};
}
int main() {
  long total = 0;
  for (int k = 0; k < 120; k++) {
    shop::Cart<long, 3> c, d;
    for (int i = 0; i < 4000; i++) { c.add(std::to_string(i % 97), i); d.add(std::to_string(i % 7), i); }
    c += d;
    std::vector<long> v;
    for (int i = 0; i < 9000; i++) v.push_back((i * 7919) % 10007);
    std::sort(v.begin(), v.end(), [](long a, long b) { return a > b; });
    total += v[3] + c.sum([&](long x) { return x * 2 + k; });
  }
  return total == 1;
}
";

/// Generics and traits.
pub const RUST: &str = "
use std::collections::BTreeMap;
trait Shape { fn area(&self) -> f64; }
struct Square(f64);
struct Circle(f64);
impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> f64 { (0..20000).fold(0.0, |s, i| s + self.0 * i as f64) }
}
impl Shape for Circle {
    #[inline(never)]
    fn area(&self) -> f64 { (0..20000).fold(0.0, |s, i| s + self.0 / (i + 1) as f64) }
}
#[inline(never)]
fn count<T: Ord + Clone>(of: &[T]) -> BTreeMap<T, usize> {
    let mut all = BTreeMap::new();
    for x in of { *all.entry(x.clone()).or_insert(0) += 1; }
    all
}
fn main() {
    let mut total = 0.0;
    for k in 0..60 {
        let shape = |i| if i % 2 == 0 { Box::new(Square(i as f64)) as Box<dyn Shape> } else { Box::new(Circle(i as f64)) };
        let shapes: Vec<Box<dyn Shape>> = (0..20).map(shape).collect();
        total += shapes.iter().map(|s| s.area()).sum::<f64>();
        let words: Vec<String> = (0..3000).map(|i| format!(\"w{}\", (i * 7919 + k) % 1009)).collect();
        total += count(&words).len() as f64;
    }
    println!(\"{total}\");
}
";

/// Forks, threads, and programs begun anew, each with a name of its own.
pub const STORM: &str = "
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink += i; }
void *thread(void *a) { prctl(PR_SET_NAME, \"thread-x\"); work(500000); return a; }
int main(int argc, char **argv) {
  if (argc > 1) { work(1000000); return 0; }
  for (int i = 0; i < 100; i++) {
    if (!fork()) {
      char name[16]; snprintf(name, sizeof name, \"child %d\", i); prctl(PR_SET_NAME, name);
      work(300000);
      pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
      if (i % 3 == 0) execl(argv[0], argv[0], \"again\", (char *)0);
      if (!fork()) { work(200000); _exit(0); }
      wait(0); _exit(0);
    }
    if (i % 4 == 3) while (wait(0) > 0);
  }
  while (wait(0) > 0);
  return 0;
}
";

/// Writes code at run time, and says so in `/tmp/perf-PID.map`.
pub const JIT: &str = "
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  /* push %rbp; mov %rsp,%rbp; xor %eax,%eax; 1: inc %eax; cmp %edi,%eax; jne 1b; pop %rbp; ret */
  unsigned char code[] = {0x55,0x48,0x89,0xe5,0x31,0xc0,0xff,0xc0,0x39,0xf8,0x75,0xfa,0x5d,0xc3};
  char *p = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(p, code, sizeof code); memcpy(p + 64, code, sizeof code); memcpy(p + 4096, code, sizeof code);
  char name[64]; snprintf(name, sizeof name, \"/tmp/perf-%d.map\", getpid());
  FILE *f = fopen(name, \"w\");
  fprintf(f, \"%lx e jit one\\n%lx e Lcom/example/Foo;::bar(I)V\\n\", (long)p, (long)p + 64); fclose(f);
  for (int i = 0; i < 5; i++) {
    ((int (*)(int))p)(40000000); ((int (*)(int))(p + 64))(20000000); ((int (*)(int))(p + 4096))(20000000);
  }
  puts(name);
  return 0;
}
";

/// Works in the handler of a signal that interrupts its work.
pub const SIGNALS: &str = "
#include <signal.h>
#include <sys/time.h>
volatile int sink;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void handler(int signal) { work(4000000 + signal); sink++; }
__attribute__((noinline)) void interrupted(void) { work(300000000); sink++; }
int main(void) {
  struct itimerval every = {{0, 5000}, {0, 5000}};
  signal(SIGVTALRM, handler);
  setitimer(ITIMER_VIRTUAL, &every, 0);
  interrupted();
  return 0;
}
";
