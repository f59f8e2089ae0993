//! GROUP_DESC: which events were counted together.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// A group of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name given by the user; perf writes `{anon_group}` for none.
    pub name: String,
    /// Index of the leader among the events; the members follow it.
    pub leader: u32,
    /// Number of events, the leader included.
    pub members: u32,
}

/// Parses the section. Errors if the groups announced are not all there.
pub fn parse(section: &[u8], order: ByteOrder) -> Result<Vec<Group>> {
    let mut r = Reader::new(Feature::GROUP_DESC, section, order);
    let n = r.count(12)?;
    (0..n).map(|_| Ok(Group { name: r.string()?, leader: r.u32()?, members: r.u32()? })).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;

    #[test]
    fn groups_name_leader_and_members() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            order.put_u32(&mut section, 1);
            strings::emit(b"{anon_group}", order, &mut section);
            order.put_u32(&mut section, 1);
            order.put_u32(&mut section, 3);
            let expected = Group { name: "{anon_group}".into(), leader: 1, members: 3 };
            assert_eq!(parse(&section, order).unwrap(), [expected]);
            assert_eq!(parse(&section[..section.len() - 4], order).unwrap_err().offset(), Some(76));
        }
    }
}
