//! `repipe plugin`, and the options for plugins and dlfilters.

mod command;
mod template;

pub use command::{PluginCommand, run};

use std::ffi::OsString;

use clap::Args;

use crate::error::Result;
use crate::plugin::dlfilter::Spec;
use crate::plugin::native;

/// Plugins.
#[derive(Args, Debug)]
pub(super) struct PluginArgs {
    /// Let records pass a plugin, with arguments if it takes some; repeat it for more, which are passed in that order,
    /// before any filter: see repipe plugin list
    #[arg(long = "plugin", value_name = "NAME|PATH[:KEY=VALUE,…]")]
    plugins: Vec<OsString>,
}

impl PluginArgs {
    /// The plugins that were asked for.
    pub fn specs(&self) -> Result<Vec<native::Spec>> {
        self.plugins.iter().map(|text| native::Spec::parse(text)).collect()
    }
}

/// perf's dlfilters.
#[derive(Args, Debug)]
pub(super) struct DlFilterArgs {
    /// Let samples pass a dlfilter as perf script has them: a path, or a name that is looked for in the current directory
    /// and where perf installs its own
    #[arg(long, value_name = "FILE")]
    dlfilter: Option<OsString>,

    /// An argument for the dlfilter; give one --dlarg for each
    #[arg(long = "dlarg", value_name = "ARG", requires = "dlfilter", allow_hyphen_values = true)]
    dlargs: Vec<OsString>,
}

impl DlFilterArgs {
    /// The filter that was asked for.
    pub fn spec(&self) -> Option<Spec> {
        let file = self.dlfilter.clone()?;
        Some(Spec { file, args: self.dlargs.clone() })
    }
}
