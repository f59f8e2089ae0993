//! The ids that a recording's own BUILD_ID section and HEADER_BUILD_ID records give, by name.

use rustc_hash::FxHashMap;

use super::id::BuildId;
use super::key::{DsoKey, DsoKind, module_name};
use super::miss::MissReason;

/// A recording's build-id table.
///
/// It is believed where it says one thing: a name with two ids (its file was replaced while recording) and
/// an id that several modules share (a fault of old recorders) count as ambiguous.
#[derive(Clone, Debug, Default)]
pub struct RecordedIds {
    by_name: FxHashMap<(bool, Box<[u8]>), Option<BuildId>>,
    // Modules also by the kernel's spelling of their names.
    modules: FxHashMap<(bool, Vec<u8>), Option<BuildId>>,
    module_of: FxHashMap<BuildId, Vec<Vec<u8>>>,
}

impl RecordedIds {
    /// Adds an entry: whether its cpumode is a guest's, whether it is the kernel's, the name up to its NUL.
    pub fn insert(&mut self, guest: bool, kernel: bool, name: &[u8], id: BuildId) {
        merge(self.by_name.entry((guest, name.into())), id);
        let is_module = name.ends_with(b"]") && !name.starts_with(b"[kernel") && !name.starts_with(b"[guest")
            || name.windows(3).any(|w| w == b".ko");
        if kernel
            && is_module
            && let Some(module) = module_name(name)
        {
            let sharing = self.module_of.entry(id).or_default();
            if !sharing.contains(&module) {
                sharing.push(module.clone());
            }
            merge(self.modules.entry((guest, module)), id);
        }
    }

    /// The id of a DSO; `None` if the table has no entry for it.
    ///
    /// # Errors
    /// [`MissReason::Ambiguous`] if the entry can't be believed.
    pub fn get(&self, key: &DsoKey) -> Option<Result<BuildId, MissReason>> {
        let guest = key.kind.is_guest();
        let exact = || key.names().find_map(|name| self.by_name.get(&(guest, Box::from(name))));
        let module = || self.modules.get(&(guest, module_name(&key.name)?));
        let found = match key.kind {
            DsoKind::Module => exact().or_else(module)?,
            _ => exact()?,
        };
        let shared = |id| key.kind == DsoKind::Module && self.module_of.get(id).is_some_and(|m| m.len() > 1);
        match found {
            Some(id) if !key.name_is_shared && !shared(id) => Some(Ok(*id)),
            _ => Some(Err(MissReason::Ambiguous)),
        }
    }

    /// Ids that several modules share, each with the modules' names: at most one of them can be right.
    pub fn shared_by_modules(&self) -> impl Iterator<Item = (BuildId, &[Vec<u8>])> {
        self.module_of.iter().filter(|(_, names)| names.len() > 1).map(|(id, names)| (*id, names.as_slice()))
    }
}

fn merge<K>(entry: std::collections::hash_map::Entry<'_, K, Option<BuildId>>, id: BuildId) {
    let known = entry.or_insert(Some(id));
    if *known != Some(id) {
        *known = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn id(n: u8) -> BuildId {
        BuildId::from_bytes(&[n; 20]).unwrap()
    }

    #[test]
    fn host_and_guest_have_names_of_their_own() {
        let mut table = RecordedIds::default();
        table.insert(false, false, b"/bin/sh", id(1));
        table.insert(true, false, b"/bin/sh", id(2));
        assert_eq!(table.get(&DsoKey::new("/bin/sh", DsoKind::User)), Some(Ok(id(1))));
        assert_eq!(table.get(&DsoKey::new("/bin/sh", DsoKind::GuestUser)), Some(Ok(id(2))));
        assert_eq!(table.get(&DsoKey::new("/bin/bash", DsoKind::User)), None);
    }

    #[test]
    fn two_ids_for_a_name_are_ambiguous() {
        let mut table = RecordedIds::default();
        for n in [1, 1, 2, 1] {
            table.insert(false, false, b"/bin/sh", id(n));
        }
        assert_eq!(table.get(&DsoKey::new("/bin/sh", DsoKind::User)), Some(Err(MissReason::Ambiguous)));
        table.insert(false, false, b"/bin/ls", id(3));
        let key = DsoKey { name_is_shared: true, ..DsoKey::new("/bin/ls", DsoKind::User) };
        assert_eq!(table.get(&key), Some(Err(MissReason::Ambiguous)));
    }

    #[test]
    fn modules_are_found_by_either_spelling_unless_they_share_an_id() {
        let mut table = RecordedIds::default();
        table.insert(false, true, b"[kernel.kallsyms]", id(9));
        table.insert(false, true, b"/lib/modules/6.1/kernel/snd-pcm.ko.xz", id(1));
        table.insert(false, true, b"[ext4]", id(2));
        assert_eq!(table.get(&DsoKey::new("[snd_pcm]", DsoKind::Module)), Some(Ok(id(1))));
        assert_eq!(table.get(&DsoKey::new("/lib/modules/x/ext4.ko", DsoKind::Module)), Some(Ok(id(2))));
        assert_eq!(table.get(&DsoKey::new("[kernel.kallsyms]_stext", DsoKind::Kernel)), Some(Ok(id(9))));
        assert_eq!(table.shared_by_modules().count(), 0);
        table.insert(false, true, b"[xfs]", id(2));
        assert_eq!(table.get(&DsoKey::new("[ext4]", DsoKind::Module)), Some(Err(MissReason::Ambiguous)));
        let shared: Vec<_> = table.shared_by_modules().collect();
        assert_eq!(shared, [(id(2), [b"ext4".to_vec(), b"xfs".to_vec()].as_slice())]);
        assert_eq!(table.get(&DsoKey::new("[kernel.kallsyms]", DsoKind::Kernel)), Some(Ok(id(9))));
    }
}
