/*
 * A plugin that misbehaves in the way that -DMODE=… says, or that its argument "do" says. -DPAST builds it as for a later
 * minor version, with more in every structure than this header has.
 */
#include <repipe_plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR RPP_ABI_MAJOR
#endif
#ifdef PAST
#define MINOR (RPP_ABI_MINOR + 7)
#define MORE 64
#else
#define MINOR RPP_ABI_MINOR
#define MORE 0
#endif
#ifndef SIZE
#define SIZE (sizeof(struct rpp_plugin) + MORE)
#endif
#ifndef ORDER
#define ORDER RPP_ORDER_TIME
#endif
#ifndef NEEDS
#define NEEDS RPP_NEEDS_SYMBOLS
#endif

static char mode[32];
static const struct rpp_host *host;
static void *kept;

static int32_t open_(const struct rpp_open *o, void **data)
{
	if (host) {
		o->host->fail(o->ctx, "opened twice");
		return -5;
	}
	host = o->host;
	kept = o->ctx;
	if (!RPP_HAS(o, granted) || !RPP_HAS(host, callchain) || o->granted != NEEDS)
		return -4;
	if (o->arg_count != 1 || strcmp(o->args[0].key, "do") || !o->args[0].value) {
		o->host->fail(o->ctx, "say what to do");
		return -1;
	}
	snprintf(mode, sizeof(mode), "%s", o->args[0].value);
	*data = mode;
	return strcmp(mode, "noopen") ? 0 : -3;
}

static uint8_t record[128] = { [4] = 0 };

static void header(uint32_t type, uint16_t size)
{
	memcpy(record, &type, 4);
	memcpy(record + 6, &size, 2);
}

__attribute__((unused)) static int32_t one(const struct rpp_host *h, void *ctx, const struct rpp_batch *b, uint32_t at)
{
	const struct rpp_record *r = rpp_at(b, at);

	if (r->type != 9)
		return 0;
	if (!strcmp(mode, "drop")) {
		b->verdicts[at] = RPP_DROP;
	} else if (!strcmp(mode, "verdict")) {
		b->verdicts[at] = 77;
	} else if (!strcmp(mode, "fail")) {
		h->fail_at(ctx, at, "I do not like it");
		return -1;
	} else if (!strcmp(mode, "failsomewhere")) {
		h->fail(ctx, "I do not like it");
		return -1;
	} else if (!strcmp(mode, "failbehind")) {
		h->fail_at(ctx, b->count, "I do not like it");
		return -1;
	} else if (!strcmp(mode, "abort")) {
		abort();
	} else if (!strcmp(mode, "silent")) {
		return -5;
	} else if (!strcmp(mode, "nothing")) {
		b->verdicts[at] = RPP_REPLACE;
	} else if (!strcmp(mode, "oversized")) {
		header(9, 0xfff8);
		h->insert_before(ctx, at, record, sizeof(record));
	} else if (!strcmp(mode, "misaligned")) {
		header(3, 27);
		h->insert_before(ctx, at, record, 27);
	} else if (!strcmp(mode, "short")) {
		h->insert_after(ctx, at, record, 5);
	} else if (!strcmp(mode, "type")) {
		header(68, 8);
		h->insert_after(ctx, at, record, 8);
	} else if (!strcmp(mode, "sample")) {
		header(9, 16);
		h->replace(ctx, at, record, 16);
		b->verdicts[at] = RPP_REPLACE;
	} else if (!strcmp(mode, "both")) {
		h->replace(ctx, at, r->bytes, r->len);
	} else if (!strcmp(mode, "endless")) {
		while (!h->insert_before(ctx, at, r->bytes, r->len))
			;
	} else if (!strcmp(mode, "huge")) {
		h->insert_before(ctx, at, r->bytes, UINT64_MAX);
		h->insert_before(ctx, at, r->bytes, INT64_MAX);
		h->insert_before(ctx, b->count, r->bytes, r->len);
		h->insert_before(NULL, at, r->bytes, r->len);
		h->insert_before(ctx, at, NULL, 8);
		h->resolve(ctx, at, ~0u, r->ip, NULL);
		h->field(ctx, at, 1000, NULL);
		h->attr(ctx, 1000, NULL);
		h->event_name(ctx, 1000);
		h->log(ctx, 0, NULL);
		h->progress(ctx, UINT64_MAX, 0);
		h->callchain(ctx, b->count, NULL);
		h->set_feature(ctx, 3, r->bytes, 8);
	} else if (!strcmp(mode, "twice")) {
		h->replace(ctx, at, r->bytes, r->len);
		h->replace(ctx, at, r->bytes, r->len);
		b->verdicts[at] = RPP_REPLACE;
	} else if (!strcmp(mode, "chain")) {
		uint32_t n = 0;
		const uint64_t *chain = h->callchain(ctx, at, &n);
		char line[4096] = "chain";
		int len = 5;

		for (uint32_t i = 0; chain && i < n && len < (int)sizeof(line) - 32; i++)
			if (chain[i] < (uint64_t)-4095)
				len += snprintf(line + len, sizeof(line) - len, " %llx", (unsigned long long)chain[i]);
		h->log(ctx, 1, line);
	} else if (!strcmp(mode, "resolve")) {
		struct rpp_location al = { .size = sizeof(al) }, none = { .size = 4 };
		struct rpp_field f;
		char line[256];

		if (h->resolve(ctx, at, ~0u, r->ip, &none) == 0)
			return -6;
		if (h->resolve(ctx, at, ~0u, r->ip, &al) || h->field(ctx, at, RPP_FIELD_IP, &f))
			return -7;
		snprintf(line, sizeof(line), "%s %s %s+%u %d %s", h->comm(ctx, at), h->event_name(ctx, r->evsel), al.symbol,
			 (unsigned)(al.address - al.symbol_start), f.value == r->ip, strrchr(al.dso, '/') + 1);
		h->log(ctx, 1, line);
	}
	return 0;
}

__attribute__((unused)) static int32_t records(void *data, const struct rpp_host *h, void *ctx, const struct rpp_batch *b)
{
	int32_t code = 0;

	for (uint32_t at = 0; at < b->count && !code; at++)
		code = one(h, ctx, b, at);
	return code;
}

static int32_t finish(void *data, const struct rpp_host *h, void *ctx)
{
	struct rpp_location al = { .size = sizeof(al) };

	if (!strcmp(mode, "latefail"))
		return -8;
	if (!strcmp(mode, "tell")) {
		h->log(ctx, 0, "beware");
		h->log(ctx, 1, "all is done");
	}
	/* no record is at hand */
	if (h->insert_before(ctx, 0, record, 8) == 0 || h->resolve(ctx, 0, ~0u, 1, &al) == 0 || h->comm(ctx, 0))
		return -9;
	return 0;
}

static void close_(void *data)
{
	struct rpp_field f;
	uint32_t count;

	/* use after finish: answered, with nothing */
	host->fail(kept, "too late");
	host->log(kept, 0, "too late");
	host->fail_at(kept, 0, "too late");
	host->progress(kept, 1, 2);
	if (host->callchain(kept, 0, &count) || host->attr(kept, 0, NULL) || host->insert_before(kept, 0, record, 8) == 0 || host->field(kept, 0, 0, &f) == 0)
		fputs("answered after the end\n", stderr);
}

static const union {
	struct rpp_plugin plugin;
	char room[sizeof(struct rpp_plugin) + 64];
} descriptor = { {
	.abi_major = MAJOR,
	.abi_minor = MINOR,
	.size = SIZE,
	.record_size = sizeof(struct rpp_record) + MORE,
	.host_size = sizeof(struct rpp_host) + MORE,
	.order = ORDER,
	.needs = NEEDS,
#ifndef NAMELESS
	.name = "rogue",
#endif
	.version = "0.1",
	.summary = "misbehaves",
	.license = "MIT OR Apache-2.0",
	.open = open_,
#ifndef HOOKLESS
	.records = records,
#endif
	.finish = finish,
	.close = close_,
#ifdef PAST
	/* what no host of today knows, and a plugin can do without */
	.wishes = 0xffull << 48,
#endif
} };

#ifdef SYMBOLLESS
const struct rpp_plugin *other_name(void)
#else
const struct rpp_plugin *repipe_plugin(void)
#endif
{
#ifdef NOTHING
	return NULL;
#endif
	return &descriptor.plugin;
}
