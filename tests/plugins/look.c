/*
 * A dlfilter with its own declarations of perf's ABI that looks at what filter.c and say.c do not: the attr, raw data, the
 * branch stack, the callchain's entries, the data address and what it hits, and all plain words of a sample. It writes
 * them into the file that is its argument, and keeps the samples of which the sum of all is even.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct branch {
	uint64_t from, to, flags;
};
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
	const uint8_t *raw_data;
	uint64_t brstack_nr;
	const struct branch *brstack;
	uint64_t raw_callchain_nr;
	const uint64_t *raw_callchain;
	const char *event;
};
struct al {
	uint32_t size, symoff;
	const char *sym;
	uint64_t addr, sym_start, sym_end;
	const char *dso;
	uint8_t sym_binding, is_64_bit, is_kernel_ip;
	uint32_t buildid_size;
	const uint8_t *buildid;
	uint8_t filtered;
	const char *comm;
	void *priv;
};
struct attr {
	uint32_t type, size;
	uint64_t config, period, sample_type;
};
struct fns {
	const struct al *(*resolve_ip)(void *);
	const struct al *(*resolve_addr)(void *);
	char **(*args)(void *, int *);
	int32_t (*resolve_address)(void *, uint64_t, struct al *);
	const uint8_t *(*insn)(void *, uint32_t *);
	const char *(*srcline)(void *, uint32_t *);
	const struct attr *(*attr)(void *);
	void *(*reserved[121])(void *);
};
_Static_assert(sizeof(struct fns) == 1024, "fns");

struct fns perf_dlfilter_fns;

static FILE *out;

int start(void **data, void *ctx)
{
	int n;
	char **v = perf_dlfilter_fns.args(ctx, &n);

	out = n == 1 ? fopen(v[0], "w") : NULL;
	return out ? 0 : -1;
}

static uint64_t sum(const void *from, uint64_t len)
{
	const uint8_t *bytes = from;
	uint64_t total = len;

	for (uint64_t i = 0; i < len; i++)
		total = total * 31 + bytes[i];
	return total;
}

static void show(const char *what, const struct al *al)
{
	if (!al) {
		fprintf(out, " %s none", what);
		return;
	}
	fprintf(out, " %s %llx %s %llx-%llx+%x %s bind %d kernel %d filtered %d id %u %llx %s", what,
		(unsigned long long)al->addr, al->sym ? al->sym : "-", (unsigned long long)al->sym_start,
		(unsigned long long)al->sym_end, al->symoff, al->dso ? al->dso : "-", al->sym_binding, al->is_kernel_ip,
		al->filtered, al->buildid_size, (unsigned long long)sum(al->buildid, al->buildid_size), al->comm ? al->comm : "-");
}

int filter_event(void *data, const struct sample *s, void *ctx)
{
	const struct attr *attr = perf_dlfilter_fns.attr(ctx);
	uint64_t words[] = { s->ip, s->time, s->addr, s->id, s->stream_id, s->period, s->weight, s->transaction, s->phys_addr,
			     s->data_page_size, s->code_page_size, s->cgroup, s->ins_lat, s->p_stage_cyc, s->misc, s->cpumode,
			     s->pid, s->tid, s->cpu };
	uint64_t raw = sum(s->raw_data, s->raw_size);
	uint64_t branches = sum(s->brstack, s->brstack_nr * sizeof(struct branch));
	uint64_t chain = sum(s->raw_callchain, s->raw_callchain_nr * sizeof(uint64_t));

	if (!attr)
		return -1;
	fprintf(out, "%s %u:%llx/%llx ", s->event, attr->type, (unsigned long long)attr->config,
		(unsigned long long)attr->sample_type);
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		fprintf(out, "%llx,", (unsigned long long)words[i]);
	fprintf(out, " raw %u %llx branches %llu %llx chain %llu %llx", s->raw_size, (unsigned long long)raw,
		(unsigned long long)s->brstack_nr, (unsigned long long)branches, (unsigned long long)s->raw_callchain_nr,
		(unsigned long long)chain);
	if (s->brstack_nr)
		fprintf(out, " last %llx", (unsigned long long)s->brstack[s->brstack_nr - 1].from);
	show("ip", perf_dlfilter_fns.resolve_ip(ctx));
	if (s->addr_correlates_sym)
		show("addr", perf_dlfilter_fns.resolve_addr(ctx));
	fputc('\n', out);
	return (sum(words, sizeof(words)) + raw + branches + chain) & 1;
}

int stop(void *data, void *ctx)
{
	return out ? fclose(out) : 0;
}
