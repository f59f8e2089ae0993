/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * limit: keeps no more than the first N samples of each thread.
 *
 * cc -shared -fPIC -O2 -I../abi/include -o limit.so limit.c
 */
#include <repipe_plugin.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	int32_t tid;
	uint64_t seen; /* 0: the slot is free */
};

struct limit {
	uint64_t most;
	size_t used, room; /* room is a power of two */
	struct slot *slots;
};

static struct slot *find(struct slot *slots, size_t room, int32_t tid)
{
	size_t at = (uint32_t)tid * 0x9e3779b9u & (room - 1);

	while (slots[at].seen && slots[at].tid != tid)
		at = (at + 1) & (room - 1);
	return &slots[at];
}

static int grow(struct limit *l)
{
	size_t room = l->room ? 2 * l->room : 256;
	struct slot *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return -1;
	for (size_t i = 0; i < l->room; i++)
		if (l->slots[i].seen)
			*find(slots, room, l->slots[i].tid) = l->slots[i];
	free(l->slots);
	l->slots = slots;
	l->room = room;
	return 0;
}

/* Ends open: with RPP_USAGE where an argument is wrong. */
static int32_t refuse(const struct rpp_open *open, struct limit *l, int32_t code, const char *why)
{
	open->host->fail(open->ctx, why);
	if (l)
		free(l->slots);
	free(l);
	return code;
}

static int32_t limit_open(const struct rpp_open *open, void **data)
{
	struct limit *l;
	char *end = NULL;

	if (open->arg_count != 1 || strcmp(open->args[0].key, "n") || !open->args[0].value)
		return refuse(open, NULL, RPP_USAGE, "say how many samples each thread may have, once: n=N");
	l = calloc(1, sizeof(*l));
	if (!l || grow(l))
		return refuse(open, l, -1, "out of memory");
	errno = 0;
	l->most = strtoull(open->args[0].value, &end, 10);
	if (errno || *end || end == open->args[0].value || *open->args[0].value == '-')
		return refuse(open, l, RPP_USAGE, "n is no number");
	*data = l;
	return 0;
}

static int32_t limit_records(void *data, const struct rpp_host *host, void *ctx, const struct rpp_batch *batch)
{
	struct limit *l = data;

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct rpp_record *record = rpp_at(batch, i);
		struct slot *slot;

		if (2 * l->used >= l->room && grow(l)) {
			host->fail(ctx, "out of memory");
			return -1;
		}
		slot = find(l->slots, l->room, record->tid);
		if (!slot->seen) {
			slot->tid = record->tid;
			l->used++;
		}
		if (++slot->seen > l->most)
			batch->verdicts[i] = RPP_DROP;
	}
	return 0;
}

static void limit_close(void *data)
{
	struct limit *l = data;

	free(l->slots);
	free(l);
}

static const struct rpp_plugin limit = {
	.abi_major = RPP_ABI_MAJOR,
	.abi_minor = RPP_ABI_MINOR,
	.size = sizeof(struct rpp_plugin),
	.record_size = sizeof(struct rpp_record),
	.host_size = sizeof(struct rpp_host),
	.order = RPP_ORDER_TIME,
	.name = "limit",
	.version = "0.1.0",
	.summary = "keeps no more than the first N samples of each thread",
	.description = "n=N  how many samples a thread may have",
	.license = "MIT OR Apache-2.0",
	.record_types = { 1ull << 9 },
	.open = limit_open,
	.records = limit_records,
	.close = limit_close,
};

const struct rpp_plugin *repipe_plugin(void)
{
	return &limit;
}
