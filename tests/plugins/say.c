/* A dlfilter that prints through C's standard output, and drops every third sample late. */
#include <stdio.h>

static int n;

int filter_event_early(void *data, const void *sample, void *ctx)
{
	printf("early %d\n", ++n);
	return 0;
}

int filter_event(void *data, const void *sample, void *ctx)
{
	printf("late %d\n", n);
	return n % 3 == 0;
}

int stop(void *data, void *ctx)
{
	printf("stop\n");
	return 0;
}
