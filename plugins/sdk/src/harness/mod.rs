//! Runs a plugin on records that a test builds, without repipe: through the same interface, with a host that answers from
//! what the test sets.
#![expect(unsafe_code, reason = "plays the host of the interface")]

mod host;
mod records;

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

use repipe_plugin_abi as abi;

use self::host::{State, Table, split, table};
pub use self::records::{Sample, comm, mmap2, record};
use super::record::Order;
use super::{Plugin, descriptor};

/// A plugin that is being run.
pub struct Harness<P: Plugin> {
    state: Box<State>,
    table: Box<Table>,
    data: *mut c_void,
    plugin: abi::Plugin,
    of: PhantomData<P>,
}

impl<P: Plugin> Harness<P> {
    /// Opens the plugin with arguments.
    pub fn open(args: &[(&str, Option<&str>)]) -> Result<Self, String> {
        Self::open_with(args, &[])
    }

    /// Opens the plugin with arguments, on a recording with feature sections.
    pub fn open_with(args: &[(&str, Option<&str>)], features: &[(u32, &[u8])]) -> Result<Self, String> {
        Self::open_on(abi::ABI_MINOR, args, features)
    }

    /// The same, on a host of a minor version: with 0, one that has only what version 1.0 had.
    pub fn open_on(
        minor: u32,
        args: &[(&str, Option<&str>)],
        features: &[(u32, &[u8])],
    ) -> Result<Self, String> {
        let of = descriptor::<P>();
        // SAFETY: a descriptor of ours.
        let plugin = unsafe { of.get().read() };
        let state = State {
            is_open: true,
            features: features.iter().map(|(id, bytes)| (*id, bytes.to_vec())).collect(),
            ..State::default()
        };
        let mut run = Harness {
            state: Box::new(state),
            table: table(minor),
            data: null_mut(),
            plugin,
            of: PhantomData,
        };
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let args: Vec<_> = args.iter().map(|(key, value)| (text(key), value.map(text))).collect();
        let args: Vec<abi::Arg> = args
            .iter()
            .map(|(key, value)| abi::Arg {
                key: key.as_ptr(),
                value: value.as_ref().map_or(null(), |value| value.as_ptr()),
            })
            .collect();
        let told = abi::Open {
            size: if minor == 0 { abi::v1_0::OPEN } else { size_of::<abi::Open>() } as u32,
            big_endian: 0,
            host: run.host(),
            ctx: run.ctx(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            evsel_count: 1,
            granted: run.plugin.needs,
        };
        let open = run.plugin.open.ok_or("no open")?;
        // SAFETY: as the interface says.
        let code = unsafe { open(&raw const told, &raw mut run.data) };
        run.result(code)?;
        Ok(run)
    }

    fn host(&self) -> *const abi::Host {
        self.table.as_ptr().cast()
    }

    fn ctx(&mut self) -> *mut c_void {
        (&raw mut *self.state).cast()
    }

    fn result(&mut self, code: i32) -> Result<(), String> {
        match self.state.failure.take() {
            Some(why) => Err(why),
            None if code < 0 => Err(format!("returned {code}")),
            None => Ok(()),
        }
    }

    /// Sets the name that threads have from now on.
    pub fn set_comm(&mut self, comm: &str) {
        self.state.comm = CString::new(comm).ok();
    }

    /// Sets the DSO and the symbol in which all addresses lie from now on.
    pub fn set_location(&mut self, dso: &str, symbol: Option<&str>) {
        self.state.dso = CString::new(dso).unwrap_or_default();
        self.state.symbol = symbol.and_then(|symbol| CString::new(symbol).ok());
    }

    /// Shows it a sample; the records that leave.
    pub fn sample(&mut self, sample: &Sample) -> Result<Vec<Vec<u8>>, String> {
        let bytes = sample.bytes();
        self.show(abi::Record {
            bytes: bytes.as_ptr(),
            len: bytes.len() as u32,
            ty: super::SAMPLE,
            pos: 0,
            time: sample.time,
            id: abi::NONE,
            ip: sample.ip,
            period: sample.period,
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu,
            evsel: sample.evsel,
            misc: 2,
            cpumode: 2,
            reserved: [0; 5],
        })
    }

    /// Shows it any record; the records that leave.
    pub fn record(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.show(abi::Record {
            bytes: bytes.as_ptr(),
            len: bytes.len() as u32,
            ty: Order::Little.u32(bytes, 0).ok_or("no header")?,
            pos: 0,
            time: abi::NONE,
            id: abi::NONE,
            ip: 0,
            period: 0,
            pid: -1,
            tid: -1,
            cpu: -1,
            evsel: u32::MAX,
            misc: Order::Little.u16(bytes, 4).unwrap_or(0),
            cpumode: (Order::Little.u16(bytes, 4).unwrap_or(0) & 7) as u8,
            reserved: [0; 5],
        })
    }

    fn show(&mut self, told: abi::Record) -> Result<Vec<Vec<u8>>, String> {
        // SAFETY: the record's bytes are borrowed by the caller of this function.
        let own = unsafe { std::slice::from_raw_parts(told.bytes, told.len as usize) };
        let bits = self.plugin.record_types;
        let wanted =
            bits == [0; 4] || bits.get(told.ty as usize / 64).is_some_and(|w| w >> (told.ty % 64) & 1 == 1);
        if !wanted {
            return Ok(vec![own.to_vec()]);
        }
        self.state.record = Some(told);
        self.state.out = Default::default();
        let mut verdict = abi::KEEP;
        let batch = abi::Batch {
            size: size_of::<abi::Batch>() as u32,
            count: 1,
            stride: size_of::<abi::Record>() as u32,
            reserved: 0,
            records: &raw const told,
            verdicts: &raw mut verdict,
        };
        let records = self.plugin.records.ok_or("no hook")?;
        let (data, host, ctx) = (self.data, self.host(), self.ctx());
        // SAFETY: as the interface says.
        let code = unsafe { records(data, host, ctx, &raw const batch) };
        self.state.record = None;
        self.result(code)?;
        let [before, instead, after] = std::mem::take(&mut self.state.out);
        let middle = match verdict {
            abi::KEEP => own,
            abi::DROP => &[],
            _ => &instead,
        };
        split(&[&before, middle, &after].concat())
    }

    /// Files that it has begun to write and has not completed.
    pub fn unfinished(&self) -> &[String] {
        &self.state.unfinished
    }

    /// Ends the run: the feature sections as they are then, and what the plugin had to say.
    #[expect(clippy::type_complexity, reason = "a pair of what is left")]
    pub fn finish(mut self) -> Result<(BTreeMap<u32, Vec<u8>>, Vec<String>), String> {
        let (data, host, ctx) = (self.data, self.host(), self.ctx());
        if let Some(finish) = self.plugin.finish {
            // SAFETY: as the interface says.
            let code = unsafe { finish(data, host, ctx) };
            self.result(code)?;
        }
        Ok((std::mem::take(&mut self.state.features), std::mem::take(&mut self.state.log)))
    }
}

impl<P: Plugin> Drop for Harness<P> {
    fn drop(&mut self) {
        self.state.is_open = false;
        if let Some(close) = self.plugin.close.filter(|_| !self.data.is_null()) {
            // SAFETY: as the interface says.
            unsafe { close(self.data) };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::edit;
    use super::super::{Args, Host, Info, OpenError, Record, Verdict};
    use super::*;

    /// Cuts callchains, renames, and panics when told to.
    struct Cut(usize);

    impl Plugin for Cut {
        const INFO: Info = Info { symbols: true, ..Info::new(c"cut", c"1") };

        fn open(args: &Args, _: &mut Host<'_>) -> Result<Self, OpenError> {
            Ok(Cut(args.number("n")?.ok_or("n=N")?))
        }

        fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
            if record.tid() == 666 {
                panic!("no {}", record.tid());
            }
            if let Some(name) = edit::name(record) {
                let new = [b"new-", name].concat();
                host.replace(&edit::with_name(record, &new)?)?;
                return Ok(Verdict::Replace);
            }
            let Some(mut sample) = edit::Sample::of(record, host) else { return Ok(Verdict::Keep) };
            let chain = sample.callchain().unwrap();
            sample.set_callchain(chain.get(..self.0).unwrap_or(&chain));
            assert!(sample.set_ip(0x77) && sample.set_period(5) && !sample.set_addr(1));
            host.replace(&sample.into_bytes()?)?;
            let place = host.resolve(record.ip()).unwrap();
            host.insert_after(&comm(7, &String::from_utf8(place.symbol.unwrap().0).unwrap()))?;
            Ok(Verdict::Replace)
        }
    }

    #[test]
    fn a_plugin_edits_samples_and_names_and_its_panic_is_an_error() {
        assert_eq!(Harness::<Cut>::open(&[]).err(), Some("n=N".into()));
        let mut run = Harness::<Cut>::open(&[("n", Some("2"))]).unwrap();
        run.set_location("/bin/x", Some("main"));
        let sample = Sample { callchain: vec![1, 2, 3], ..Sample::default() };
        let out = run.sample(&sample).unwrap();
        let expected = Sample { ip: 0x77, period: 5, callchain: vec![1, 2], ..sample.clone() };
        assert_eq!(out, [expected.bytes(), comm(7, "main")]);
        assert_eq!(Sample::parse(out.first().unwrap()), Some(expected));
        assert_eq!(run.record(&comm(7, "sh")).unwrap(), [comm(7, "new-sh")]);
        assert_eq!(run.record(&mmap2(7, 0x1000, "/x")).unwrap(), [mmap2(7, 0x1000, "new-/x")]);
        assert_eq!(run.sample(&Sample { tid: 666, ..sample }), Err("panicked: no 666".into()));
    }
    /// Asks for what hosts have since version 1.1.
    struct Late;

    impl Plugin for Late {
        const INFO: Info = Info { unwind: true, ..Info::new(c"late", c"1") };

        fn open(_: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
            host.progress(1, 2);
            Ok(Late)
        }

        fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
            let chain = host.callchain().map(<[u64]>::to_vec);
            host.log(&format!("{chain:?}"));
            if record.tid() == 7 { Err("no 7".into()) } else { Ok(Verdict::Keep) }
        }
    }

    #[test]
    fn what_a_later_version_added_is_not_used_on_an_older_host() {
        let sample = Sample { callchain: vec![1, 2], ..Sample::default() };
        for (minor, log) in [(0, vec!["None"]), (abi::ABI_MINOR, vec!["1 of 2", "Some([1, 2])"])] {
            // Behind the table of the older host stands what is no pointer.
            let mut run = Harness::<Late>::open_on(minor, &[], &[]).unwrap();
            assert_eq!(run.sample(&sample).unwrap(), [sample.bytes()]);
            assert_eq!(run.finish().unwrap().1, log);
            let mut run = Harness::<Late>::open_on(minor, &[], &[]).unwrap();
            assert_eq!(run.sample(&Sample { tid: 7, ..sample.clone() }), Err("no 7".into()));
        }
    }
}
