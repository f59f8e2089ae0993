/*
 * A plugin built for version 1.0 of the interface, from that version's header: doubles the samples in a map, tells what it
 * resolved, and fails at the sample that its argument says. It knows batches, as 1.0 has them.
 */
#include "repipe_plugin_1_0.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(RPP_ABI_MINOR == 0, "the header of 1.0");

static unsigned long seen, fail_at;

/* More than 1.0's location has, to see that nothing behind it is written. */
struct guarded {
	struct rpp_location al;
	uint64_t guard[4];
};

static int32_t open_(const struct rpp_open *o, void **data)
{
	if (o->size < sizeof(*o) || o->host->size < sizeof(*o->host))
		return -1;
	fail_at = o->arg_count ? strtoul(o->args[0].value, NULL, 10) : 0;
	*data = &seen;
	return 0;
}

static int32_t records(void *data, const struct rpp_host *h, void *ctx, const struct rpp_batch *b)
{
	struct guarded g;
	uint32_t found = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct rpp_record *r = rpp_at(b, i);

		if (++seen == fail_at) {
			h->fail(ctx, "as told");
			return -1;
		}
		memset(&g, 0x5a, sizeof(g));
		g.al.size = sizeof(g.al);
		if (h->resolve(ctx, i, ~0u, r->ip, &g.al) || g.al.size != sizeof(g.al))
			return -2;
		for (int n = 0; n < 4; n++)
			if (g.guard[n] != 0x5a5a5a5a5a5a5a5aull)
				return -3;
		if (!g.al.found)
			continue;
		found++;
		if (h->replace(ctx, i, r->bytes, r->len) || h->insert_after(ctx, i, r->bytes, r->len))
			return -4;
		b->verdicts[i] = RPP_REPLACE;
	}
	return 0;
}

static int32_t finish(void *data, const struct rpp_host *h, void *ctx)
{
	char line[64];

	snprintf(line, sizeof(line), "saw %lu", seen);
	h->log(ctx, 1, line);
	return 0;
}

/* What follows the descriptor in memory is no part of it. */
static const struct {
	struct rpp_plugin plugin;
	uint64_t behind[8];
} placed = {
	.plugin = {
		.abi_major = RPP_ABI_MAJOR,
		.abi_minor = RPP_ABI_MINOR,
		.size = sizeof(struct rpp_plugin),
		.record_size = sizeof(struct rpp_record),
		.host_size = sizeof(struct rpp_host),
		.order = RPP_ORDER_TIME,
		.needs = RPP_NEEDS_SYMBOLS,
		.name = "old",
		.version = "1",
		.record_types = { 1ull << 9 },
		.open = open_,
		.records = records,
		.finish = finish,
	},
	.behind = { ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull },
};

const struct rpp_plugin *repipe_plugin(void)
{
	return &placed.plugin;
}
