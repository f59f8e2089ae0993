/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * repipe_plugin.h: the binary interface between repipe and its plugins, version 1.1.
 *
 * A plugin is a shared object with one symbol, repipe_plugin(), which returns a descriptor. The host reads no more of a
 * structure than the size that it states, so structures grow at their end: a plugin built for another minor version
 * loads, one for another major version does not. What is marked with a later minor version than 1.0 may lack in an older
 * host: a plugin that uses it asks RPP_HAS() first.
 *
 * All strings are UTF-8 or bytes of the recording, with a NUL behind. What a function returns stays valid until the hook
 * that called it returns; strings stay until finish returns. Records are bytes in the recording's byte order.
 */
#ifndef REPIPE_PLUGIN_H
#define REPIPE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RPP_ABI_MAJOR 1
#define RPP_ABI_MINOR 1

/* rpp_plugin.order: in which order records come. */
#define RPP_ORDER_FILE 0 /* any: as they stand in the recording, unless something else in the run needs another */
#define RPP_ORDER_TIME 1 /* by time; addresses can be resolved and names of threads asked for */
/* Since version 1.1: by time, and neither of these is asked for, which costs less. An older host refuses it. */
#define RPP_ORDER_TIME_ALONE 2

/* rpp_plugin.needs */
#define RPP_NEEDS_SYMBOLS (1ull << 0) /* resolve() is called; asks for RPP_ORDER_TIME */
#define RPP_NEEDS_UNWIND (1ull << 1)  /* callchain() is called; asks for RPP_ORDER_TIME; refused by hosts before 1.1 */
#define RPP_EDITS_FEATURES (1ull << 2) /* set_feature() is called; from pipe to pipe that takes the hook features */

/* Verdicts on a record. */
#define RPP_KEEP 0
#define RPP_DROP 1
#define RPP_REPLACE 2 /* replace() has given what goes in its place */

/* What hooks return: 0, or a negative number after fail() has said why. */

/* A record. */
struct rpp_record {
	const uint8_t *bytes; /* all of it, its header of 8 bytes included */
	uint32_t len;
	uint32_t type;  /* PERF_RECORD_* */
	uint64_t pos;   /* where it stands in the recording */
	uint64_t time;  /* ns; all ones without */
	uint64_t id;    /* of the event; all ones without */
	uint64_t ip;    /* of samples; 0 without */
	uint64_t period; /* of samples; that of the event without */
	int32_t pid;    /* -1 without */
	int32_t tid;
	int32_t cpu;
	uint32_t evsel; /* index of the event, of samples; all ones without */
	uint16_t misc;
	uint8_t cpumode; /* PERF_RECORD_MISC_CPUMODE_MASK of misc */
	uint8_t reserved[5];
};

/* Where an address lies. */
struct rpp_location {
	uint32_t size; /* of this structure, set by the caller */
	uint32_t found; /* 0: there is no map */
	uint64_t address; /* within the DSO's file */
	uint64_t map_start, map_end, map_pgoff;
	const char *dso; /* as recorded; NULL without a map */
	const char *symbol; /* NULL without */
	uint64_t symbol_start, symbol_end; /* as address */
	uint32_t symbol_binding; /* STB_* */
	uint32_t build_id_size;
	uint8_t build_id[20];
	uint32_t cpumode; /* whose maps it is in */
	/* Since version 1.1: */
	const char *dso_path; /* as perf's dso.long_name: of modules the file, of JITed code the file of its symbols */
	const char *dso_short_name; /* as perf's dso.short_name */
	uint32_t dso_id; /* the same for the same DSO in this run */
	uint32_t reserved;
};

/* Fields of a sample. */
enum {
	RPP_FIELD_READ,
	RPP_FIELD_CALLCHAIN, /* u64 entries */
	RPP_FIELD_RAW,
	RPP_FIELD_BRANCHES, /* three u64 an entry */
	RPP_FIELD_REGS_USER, /* u64 a register; value is the ABI */
	RPP_FIELD_STACK_USER,
	RPP_FIELD_REGS_INTR,
	RPP_FIELD_WEIGHT, /* value from here on */
	RPP_FIELD_DATA_SRC,
	RPP_FIELD_TRANSACTION,
	RPP_FIELD_PHYS_ADDR,
	RPP_FIELD_CGROUP,
	RPP_FIELD_DATA_PAGE_SIZE,
	RPP_FIELD_CODE_PAGE_SIZE,
	RPP_FIELD_AUX, /* a range again */
	RPP_FIELD_IP, /* fixed fields: offset and value */
	RPP_FIELD_ADDR,
	RPP_FIELD_TIME,
	RPP_FIELD_PERIOD,
	RPP_FIELD_STREAM_ID,
};

/* Where a field is, and its value if it is a word. */
struct rpp_field {
	uint32_t offset; /* from the record's start */
	uint32_t len;    /* bytes */
	uint64_t value;
};

/* What the host offers. ctx is the hook's; record is the index in the batch. */
struct rpp_host {
	uint32_t size;
	uint32_t abi_minor;
	/* Where an address of the record's thread lies. cpumode ~0 means the record's own, with the other side as a fallback.
	 * 0, or -1 if it can't be asked now. */
	int32_t (*resolve)(void *ctx, uint32_t record, uint32_t cpumode, uint64_t address, struct rpp_location *to);
	/* Name of the record's thread; NULL if none is known. */
	const char *(*comm)(void *ctx, uint32_t record);
	/* Attribute of an event, in the recording's byte order, and its size; NULL if there is no such event. */
	const uint8_t *(*attr)(void *ctx, uint32_t evsel, uint32_t *size);
	const char *(*event_name)(void *ctx, uint32_t evsel);
	/* Where a field of a sample is. 0, or -1 if the sample does not have it. */
	int32_t (*field)(void *ctx, uint32_t record, uint32_t field, struct rpp_field *to);
	/* What goes in the record's place with RPP_REPLACE: whole records. May be called again for more. */
	int32_t (*replace)(void *ctx, uint32_t record, const uint8_t *bytes, uint64_t len);
	/* Whole records to go before or behind the record. */
	int32_t (*insert_before)(void *ctx, uint32_t record, const uint8_t *bytes, uint64_t len);
	int32_t (*insert_after)(void *ctx, uint32_t record, const uint8_t *bytes, uint64_t len);
	/* A feature section (HEADER_*) as it is; NULL if there is none. */
	const uint8_t *(*feature)(void *ctx, uint32_t feature, uint64_t *len);
	/* Puts another in its place, or with NULL none: in open, for what is known then; in features, for what has become
	 * known; and in finish, for all, if the output is a file. 0, or -1 without RPP_EDITS_FEATURES. */
	int32_t (*set_feature)(void *ctx, uint32_t feature, const uint8_t *bytes, uint64_t len);
	/* A line for the user. level: 0 warning, 1 information. */
	void (*log)(void *ctx, uint32_t level, const char *text);
	/* Why the hook is about to return a negative number. */
	void (*fail)(void *ctx, const char *text);
	/* Since version 1.1: */
	/* The same, and at which record. */
	void (*fail_at)(void *ctx, uint32_t record, const char *text);
	/* How far the plugin is with something that takes long, for the user: done of total. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	/* The callchain of a sample, in this machine's byte order, context markers (PERF_CONTEXT_*) among it. Where the sample
	 * has a copy of the user stack instead of a user callchain, that is unwound. NULL without RPP_NEEDS_UNWIND, or if
	 * the sample has neither. */
	const uint64_t *(*callchain)(void *ctx, uint32_t record, uint32_t *count);
	/* A file that the plugin has begun to write, to be removed if a signal ends the run; with is 0, one that is complete, has
	 * another name or is gone. 0, or -1 if there are too many. */
	int32_t (*unfinished)(void *ctx, const char *path, uint32_t is);
};

/* Whether a structure of the host's is large enough to have a member. */
#define RPP_HAS(pointer, member) \
	((size_t)(pointer)->size >= (size_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)))

/* key=value, or key alone with value NULL. */
struct rpp_arg {
	const char *key, *value;
};

/* What open returns if the arguments are wrong: then repipe exits as it does where its own are, with 2. */
#define RPP_USAGE (-2)

/* What open is told. */
struct rpp_open {
	uint32_t size;
	uint32_t big_endian; /* byte order of the recording */
	const struct rpp_host *host;
	void *ctx;
	const struct rpp_arg *args;
	uint32_t arg_count;
	uint32_t evsel_count; /* so far: events of a pipe may come later */
	/* Since version 1.1: */
	uint64_t granted; /* RPP_NEEDS_* that are met in this run: all of needs, and of wishes what can be */
};

/*
 * Records on end, of those that are wanted. By time, one that changes what addresses or threads mean (MMAP, COMM, FORK ...)
 * is the first of its batch, and the host has taken note of it: what is asked of any record of the batch is answered as it
 * was then. What is given takes effect when the hook returns. A sample too short for its event's fields is not shown.
 */
struct rpp_batch {
	uint32_t size;
	uint32_t count;
	uint32_t stride; /* bytes from one record to the next: use rpp_at() */
	uint32_t reserved;
	const struct rpp_record *records;
	uint8_t *verdicts; /* one each, RPP_KEEP beforehand */
};

static inline const struct rpp_record *rpp_at(const struct rpp_batch *batch, uint32_t index)
{
	return (const struct rpp_record *)((const char *)batch->records + (size_t)index * batch->stride);
}

/* What a plugin says of itself. */
struct rpp_plugin {
	uint32_t abi_major;
	uint32_t abi_minor;
	uint32_t size;        /* of this structure */
	uint32_t record_size; /* of struct rpp_record */
	uint32_t host_size;   /* of struct rpp_host */
	uint32_t order;       /* RPP_ORDER_* */
	uint64_t needs;       /* RPP_NEEDS_*; a host refuses a plugin that needs what it does not know */
	const char *name;
	const char *version;
	const char *summary;     /* one line */
	const char *description; /* more, its arguments above all; may be NULL */
	const char *license;
	uint64_t record_types[4]; /* bit N: PERF_RECORD_ type N is wanted, those from 256 on with bit 255; all 0: all */
	const char *events;       /* names separated by commas of the events whose samples are wanted; NULL: all */
	/* *data is given to the other hooks. 0; RPP_USAGE if an argument is wrong, of which fail tells; another negative number
	 * if it fails otherwise. */
	int32_t (*open)(const struct rpp_open *open, void **data);
	int32_t (*records)(void *data, const struct rpp_host *host, void *ctx, const struct rpp_batch *batch);
	/* After the last record; may be NULL. */
	int32_t (*finish)(void *data, const struct rpp_host *host, void *ctx);
	/* Always, once, after open has returned 0; nothing can be asked any more. May be NULL. */
	void (*close)(void *data);
	/* Since version 1.1: */
	uint64_t wishes; /* RPP_NEEDS_* that it makes use of but can do without; bits that the host does not know are ignored */
	/* More feature sections have become known, as they do in a pipe. One that is to be edited from pipe to pipe must be
	 * edited at once. May be NULL. */
	int32_t (*features)(void *data, const struct rpp_host *host, void *ctx);
};

/* The one symbol. */
const struct rpp_plugin *repipe_plugin(void);

#if UINTPTR_MAX == UINT64_MAX
#if defined(__cplusplus)
#define RPP_ASSERT(what) static_assert(what, #what)
#else
#define RPP_ASSERT(what) _Static_assert(what, #what)
#endif
RPP_ASSERT(sizeof(struct rpp_record) == 80);
RPP_ASSERT(offsetof(struct rpp_record, pos) == 16);
RPP_ASSERT(offsetof(struct rpp_record, pid) == 56);
RPP_ASSERT(offsetof(struct rpp_record, misc) == 72);
RPP_ASSERT(sizeof(struct rpp_location) == 128);
RPP_ASSERT(offsetof(struct rpp_location, dso) == 40);
RPP_ASSERT(offsetof(struct rpp_location, build_id) == 80);
RPP_ASSERT(offsetof(struct rpp_location, dso_path) == 104);
RPP_ASSERT(sizeof(struct rpp_field) == 16);
RPP_ASSERT(sizeof(struct rpp_host) == 136);
RPP_ASSERT(offsetof(struct rpp_host, fail) == 96);
RPP_ASSERT(offsetof(struct rpp_host, callchain) == 120);
RPP_ASSERT(offsetof(struct rpp_host, unfinished) == 128);
RPP_ASSERT(sizeof(struct rpp_arg) == 16);
RPP_ASSERT(sizeof(struct rpp_open) == 48);
RPP_ASSERT(offsetof(struct rpp_open, granted) == 40);
RPP_ASSERT(sizeof(struct rpp_batch) == 32);
RPP_ASSERT(sizeof(struct rpp_plugin) == 160);
RPP_ASSERT(offsetof(struct rpp_plugin, record_types) == 72);
RPP_ASSERT(offsetof(struct rpp_plugin, close) == 136);
RPP_ASSERT(offsetof(struct rpp_plugin, wishes) == 144);
RPP_ASSERT(offsetof(struct rpp_plugin, features) == 152);
#undef RPP_ASSERT
#endif

#ifdef __cplusplus
}
#endif

#endif
