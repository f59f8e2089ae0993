//! `every`: keeps one sample in N of each event and CPU; its period is that of all of them, so that totals hold.
//! Of what is left at the end, fewer than N of each, nothing is kept.

use std::collections::HashMap;

use repipe_plugin::edit::Sample;
use repipe_plugin::{Args, Host, Info, OpenError, Plugin, Record, Verdict, export};

struct Every {
    n: u64,
    /// By event and CPU: samples and period since the last that was kept.
    since: HashMap<(u32, Option<i32>), (u64, u64)>,
    /// Whether an event was met whose samples have no period to be set.
    fixed: bool,
}

impl Plugin for Every {
    const INFO: Info = Info {
        summary: c"keeps one sample in N of each event and CPU, with the period of all of them",
        description: c"n=N  how many samples make one (at least 1)\n\n\
            The last of each N samples is kept. Samples after the last one that was kept are left out with their periods.",
        license: c"MIT OR Apache-2.0",
        record_types: &[repipe_plugin::SAMPLE],
        ..Info::new(c"every", c"0.1.0")
    };

    fn open(args: &Args, _: &mut Host<'_>) -> Result<Self, OpenError> {
        args.only(&["n"])?;
        let n = args.number("n")?.filter(|&n| n > 0).ok_or("say how many samples make one: n=N")?;
        Ok(Every { n, since: HashMap::new(), fixed: false })
    }

    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
        let (count, period) = self.since.entry((record.evsel(), record.cpu())).or_default();
        *count += 1;
        *period = period.saturating_add(record.period());
        if *count < self.n {
            return Ok(Verdict::Drop);
        }
        let total = std::mem::take(period);
        *count = 0;
        if total == record.period() {
            return Ok(Verdict::Keep);
        }
        let Some(mut sample) = Sample::of(record, host) else { return Ok(Verdict::Keep) };
        if !sample.set_period(total) {
            self.fixed = true;
            return Ok(Verdict::Keep);
        }
        host.replace(&sample.into_bytes()?)?;
        Ok(Verdict::Replace)
    }

    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        if self.fixed {
            host.log("samples of some event have no period, so theirs could not be scaled");
        }
        Ok(())
    }
}

export!(Every);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use repipe_plugin::harness::{Harness, Sample};

    #[test]
    fn one_in_three_of_each_cpu_with_the_period_of_all() {
        let mut run = Harness::<Every>::open(&[("n", Some("3"))]).unwrap();
        let mut kept = Vec::new();
        for n in 0..14u64 {
            let sample = Sample { cpu: (n % 2) as i32, period: n, time: n, ..Sample::default() };
            kept.extend(run.sample(&sample).unwrap());
        }
        let kept: Vec<_> = kept.iter().map(|bytes| Sample::parse(bytes).unwrap()).collect();
        let told: Vec<_> = kept.iter().map(|s| (s.cpu, s.time, s.period)).collect();
        assert_eq!(told, [(0, 4, 6), (1, 5, 9), (0, 10, 24), (1, 11, 27)]);
    }

    #[test]
    fn one_in_one_changes_nothing_and_none_is_refused() {
        let mut run = Harness::<Every>::open(&[("n", Some("1"))]).unwrap();
        let sample = Sample { period: 9, ..Sample::default() };
        assert_eq!(run.sample(&sample).unwrap(), [sample.bytes()]);
        for args in [&[][..], &[("n", Some("0"))], &[("n", Some("x"))], &[("m", Some("1"))]] {
            assert!(Harness::<Every>::open(args).is_err());
        }
    }
}
