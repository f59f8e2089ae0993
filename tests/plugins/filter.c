/*
 * A dlfilter with its own declarations of perf's ABI, to be built with -DOLD for that of perf 5.14: a sample without the
 * guest's words, a location without its last ones.
 *
 * Arguments: keep | odd | early | fail | failstart, then a file for what it sees.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct sample {
	uint32_t size;
	uint16_t ins_lat, p_stage_cyc;
	uint64_t ip;
	int32_t pid, tid;
	uint64_t time, addr, id, stream_id, period, weight, transaction, insn_cnt, cyc_cnt;
	int32_t cpu;
	uint32_t flags;
	uint64_t data_src, phys_addr, data_page_size, code_page_size, cgroup;
	uint8_t cpumode, addr_correlates_sym;
	uint16_t misc;
	uint32_t raw_size;
	const void *raw_data;
	uint64_t brstack_nr;
	const void *brstack;
	uint64_t raw_callchain_nr;
	const uint64_t *raw_callchain;
	const char *event;
#ifndef OLD
	int32_t machine_pid, vcpu;
#endif
};
struct al {
	uint32_t size, symoff;
	const char *sym;
	uint64_t addr, sym_start, sym_end;
	const char *dso;
	uint8_t sym_binding, is_64_bit, is_kernel_ip;
	uint32_t buildid_size;
	uint8_t *buildid;
	uint8_t filtered;
	const char *comm;
#ifndef OLD
	void *priv;
#endif
};
struct fns {
	const struct al *(*resolve_ip)(void *);
	const struct al *(*resolve_addr)(void *);
	char **(*args)(void *, int *);
	int32_t (*resolve_address)(void *, uint64_t, struct al *);
	const uint8_t *(*insn)(void *, uint32_t *);
	const char *(*srcline)(void *, uint32_t *);
	void *(*attr)(void *);
	int32_t (*object_code)(void *, uint64_t, void *, uint32_t);
	void (*al_cleanup)(void *, struct al *);
	void *(*reserved[119])(void *);
};
_Static_assert(sizeof(struct fns) == 1024, "fns");
_Static_assert(offsetof(struct sample, event) == 192, "sample");

struct fns perf_dlfilter_fns;

static FILE *out;
static const char *mode;
static unsigned long calls;

int start(void **data, void *ctx)
{
	int n;
	char **v = perf_dlfilter_fns.args(ctx, &n);
	uint32_t none = 0;

	if (n != 2)
		return -2;
	if (out)
		return -8; /* started twice */
	mode = v[0];
	out = fopen(v[1], "w");
	if (!out)
		return -3;
	fprintf(out, "start %d %d %d %d\n", n, perf_dlfilter_fns.resolve_ip(ctx) != NULL,
		perf_dlfilter_fns.insn(ctx, &none) != NULL, perf_dlfilter_fns.object_code(ctx, 0, &none, 4));
	*data = &calls;
	return strcmp(mode, "failstart") ? 0 : -5;
}

static const char *base(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "-";
}

int filter_event_early(void *data, const struct sample *s, void *ctx)
{
	const struct al *al = perf_dlfilter_fns.resolve_ip(ctx);
	struct al other = { .size = sizeof(other) };
	uint32_t n = 0, line = 0;
	const uint8_t *code = perf_dlfilter_fns.insn(ctx, &n);
	uint8_t same[16];
	int32_t got = perf_dlfilter_fns.object_code(ctx, s->ip, same, sizeof(same));
	const char *file = perf_dlfilter_fns.srcline(ctx, &line);

	if (data != &calls)
		return -6;
	calls++;
	perf_dlfilter_fns.resolve_address(ctx, s->ip, &other);
	fprintf(out, "%d %s %s %s+%u %s %u/%u %s %d %llu %s\n", s->pid, s->event, al->comm, al->sym ? al->sym : "-",
		al->symoff, base(al->dso), al->buildid_size, other.size,
		other.sym == al->sym ? "same" : "other", got >= (int)n && code && !memcmp(code, same, n),
		(unsigned long long)s->raw_callchain_nr, base(file));
	if (perf_dlfilter_fns.al_cleanup)
		perf_dlfilter_fns.al_cleanup(ctx, &other);
	if (!strcmp(mode, "fail") && calls == 5)
		return -9;
	return !strcmp(mode, "early");
}

int filter_event(void *data, const struct sample *s, void *ctx)
{
	static unsigned long late;

	return !strcmp(mode, "odd") && late++ % 2;
}

int stop(void *data, void *ctx)
{
	if (out)
		fprintf(out, "stop %lu\n", calls);
	return -1;
}

const char *filter_description(const char **more)
{
	*more = "It is for tests.";
	return "writes down what it sees";
}
