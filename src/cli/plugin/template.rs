//! What `repipe plugin new` writes: a crate that builds at once, with the SDK beside it.

use std::path::Path;

use crate::error::{Error, Result};

/// The SDK and the interface that it stands on, as this program was built with.
const SDK: [(&str, &str); 12] = [
    ("vendor/repipe-plugin-abi/src/lib.rs", include_str!("../../../plugins/abi/src/lib.rs")),
    ("vendor/repipe-plugin-abi/include/repipe_plugin.h", HEADER),
    ("vendor/repipe-plugin/src/lib.rs", include_str!("../../../plugins/sdk/src/lib.rs")),
    ("vendor/repipe-plugin/src/args.rs", include_str!("../../../plugins/sdk/src/args.rs")),
    ("vendor/repipe-plugin/src/edit.rs", include_str!("../../../plugins/sdk/src/edit.rs")),
    ("vendor/repipe-plugin/src/entry.rs", include_str!("../../../plugins/sdk/src/entry.rs")),
    ("vendor/repipe-plugin/src/harness/host.rs", include_str!("../../../plugins/sdk/src/harness/host.rs")),
    ("vendor/repipe-plugin/src/harness/mod.rs", include_str!("../../../plugins/sdk/src/harness/mod.rs")),
    (
        "vendor/repipe-plugin/src/harness/records.rs",
        include_str!("../../../plugins/sdk/src/harness/records.rs"),
    ),
    ("vendor/repipe-plugin/src/host.rs", include_str!("../../../plugins/sdk/src/host.rs")),
    ("vendor/repipe-plugin/src/record.rs", include_str!("../../../plugins/sdk/src/record.rs")),
    ("rustfmt.toml", "max_width = 110\n"),
];
const HEADER: &str = include_str!("../../../plugins/abi/include/repipe_plugin.h");

const MANIFEST: &str = r#"[package]
name = "repipe-plugin-NAME"
version = "0.1.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
repipe-plugin = { path = "vendor/repipe-plugin" }

[workspace]
"#;

const LIBRARY: &str = r##"//! A plugin for repipe.

use repipe_plugin::{Args, Host, Info, OpenError, Plugin, Record, Verdict, export};

/// Leaves out the samples of one CPU.
struct TYPE {
    cpu: i32,
}

impl Plugin for TYPE {
    const INFO: Info = Info {
        summary: c"leaves out the samples of one CPU",
        description: c"cpu=N  the CPU",
        record_types: &[repipe_plugin::SAMPLE],
        ..Info::new(c"NAME", c"0.1.0")
    };

    fn open(args: &Args, _host: &mut Host<'_>) -> Result<Self, OpenError> {
        args.only(&["cpu"])?;
        Ok(TYPE { cpu: args.number("cpu")?.ok_or("say which CPU: cpu=N")? })
    }

    fn record(&mut self, record: &Record<'_>, _host: &mut Host<'_>) -> Result<Verdict, String> {
        Ok(if record.cpu() == Some(self.cpu) { Verdict::Drop } else { Verdict::Keep })
    }
}

export!(TYPE);

#[cfg(test)]
mod tests {
    use super::*;
    use repipe_plugin::harness::{Harness, Sample};

    #[test]
    fn samples_of_the_cpu_are_left_out() {
        let mut run = Harness::<TYPE>::open(&[("cpu", Some("3"))]).unwrap();
        assert!(run.sample(&Sample { cpu: 3, ..Sample::default() }).unwrap().is_empty());
        let other = Sample { cpu: 2, ..Sample::default() };
        assert_eq!(run.sample(&other).unwrap(), [other.bytes()]);
    }
}
"##;

const C_SOURCE: &str = r#"/* A plugin for repipe: leaves out the samples of the idle task. */
#include "repipe_plugin.h"

static int32_t records(void *data, const struct rpp_host *host, void *ctx, const struct rpp_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++)
		if (rpp_at(batch, i)->pid == 0)
			batch->verdicts[i] = RPP_DROP;
	return 0;
}

static const struct rpp_plugin plugin = {
	.abi_major = RPP_ABI_MAJOR,
	.abi_minor = RPP_ABI_MINOR,
	.size = sizeof(struct rpp_plugin),
	.record_size = sizeof(struct rpp_record),
	.host_size = sizeof(struct rpp_host),
	.order = RPP_ORDER_FILE,
	.name = "NAME",
	.version = "0.1.0",
	.summary = "leaves out the samples of the idle task",
	.record_types = { 1ull << 9 }, /* PERF_RECORD_SAMPLE */
	.records = records,
};

const struct rpp_plugin *repipe_plugin(void)
{
	return &plugin;
}
"#;

const MAKEFILE: &str = "NAME.so: NAME.c repipe_plugin.h\n\tcc -shared -fPIC -O2 -Wall -o $@ NAME.c\n";

fn vendored(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"{}\"\nedition = \"2024\"\n{dependencies}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Makes the folder `NAME`, which must not be there, with a plugin in it.
pub(super) fn write(folder: &Path, name: &str, in_c: bool) -> Result<()> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty()
        || !name.chars().all(letters)
        || name.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
    {
        return Err(Error::usage(format!("{name} is no name for a plugin"))
            .hint("use lower-case letters, digits and dashes, with a letter first"));
    }
    std::fs::create_dir(folder).map_err(|e| Error::io(e, "cannot make the folder", folder))?;
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| Error::io(e, "cannot write", &path))
    };
    if in_c {
        put("repipe_plugin.h", HEADER)?;
        put(&format!("{name}.c"), &C_SOURCE.replace("NAME", name))?;
        return put("Makefile", &MAKEFILE.replace("NAME", name));
    }
    let upper = |part: &str| {
        part.chars().take(1).map(|c| c.to_ascii_uppercase()).chain(part.chars().skip(1)).collect::<String>()
    };
    let ty: String = name.split('-').map(upper).collect();
    put("Cargo.toml", &MANIFEST.replace("NAME", name))?;
    put("src/lib.rs", &LIBRARY.replace("NAME", name).replace("TYPE", &ty))?;
    put("vendor/repipe-plugin-abi/Cargo.toml", &vendored("repipe-plugin-abi", ""))?;
    let abi = "\n[dependencies]\nrepipe-plugin-abi = { path = \"../repipe-plugin-abi\" }\n";
    put("vendor/repipe-plugin/Cargo.toml", &vendored("repipe-plugin", abi))?;
    SDK.iter().try_for_each(|(path, text)| put(path, text))
}
