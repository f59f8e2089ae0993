//! A recording opened for reading, whatever it is: its header as far as it stands at the front, and its records.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirectorySource, MapSource, PipeFeed, Source, Threaded, decompressing};
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::data::{self, Identity, Input, Mapping};
use crate::error::{Error, ErrorKind, Result};
use crate::header::{Container, FileHeader, Header, PIPE_HEADER_SIZE, detect};
use crate::reader::Block;

/// What the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A file in file format.
    File,
    /// A pipe, or a regular file in pipe format.
    Pipe,
    /// A directory.
    Directory,
}

/// An opened recording.
pub struct Recording {
    /// Its name for messages.
    pub name: PathBuf,
    /// What it is.
    pub form: Form,
    /// Attributes and features of a file or directory; of a pipe only the byte order, the rest comes as records.
    pub header: Header,
    /// The file's header with its offsets, and the map, for a file.
    pub file: Option<(FileHeader, Arc<Mapping>)>,
    /// The records.
    pub source: Box<dyn Source>,
    /// Device, inode and permissions of a regular input.
    pub identity: Option<Identity>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// How to open.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Read files of other users.
    pub force: bool,
    /// Take a broken recording as far as it is whole.
    pub salvage: bool,
}

impl Recording {
    /// Opens a file, a directory, or standard input for `-`.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Recording> {
        let (input, identity) = data::open(path, options.force)?;
        let mut recording = match input {
            Input::File(map) => Self::from_map(&map, options)?,
            Input::Pipe(pipe) => {
                let name = pipe.name.clone();
                let mut feed = PipeFeed::new(pipe);
                let first = feed.read_first(PIPE_HEADER_SIZE as usize)?;
                let (order, container, _) = detect(&first).map_err(|e| e.in_file(&name))?;
                if container == Container::File {
                    return Err(Error::new(ErrorKind::Unsupported, "a recording in file format on a pipe")
                        .in_file(&name)
                        .hint(
                            "file format needs seeking: give the file's name with -i, or redirect it with <",
                        ));
                }
                let source = Box::new(Threaded::spawn(feed, order, PIPE_HEADER_SIZE));
                Self::piped(name, order, source)
            }
            Input::Directory(directory) => Self::from_directory(directory, options)?,
        };
        recording.identity = identity;
        Ok(recording)
    }

    fn piped(name: PathBuf, order: ByteOrder, source: Box<dyn Source>) -> Recording {
        let header = Header::new(order);
        Recording { name, form: Form::Pipe, header, file: None, source, identity: None, warnings: Vec::new() }
    }

    fn from_map(map: &Arc<Mapping>, options: OpenOptions) -> Result<Recording> {
        let (order, container, size) = detect(map).map_err(|e| e.in_file(map.path()))?;
        let name = map.path().to_path_buf();
        if container == Container::Pipe {
            let source = MapSource::new(map, size as usize..map.len());
            return Ok(Self::piped(name, order, Box::new(source)));
        }
        let mut warnings = Vec::new();
        let (file, header, range) = Self::file_parts(map, options, &mut warnings)?;
        let source = Box::new(MapSource::new(map, range));
        let file = Some((file, map.clone()));
        Ok(Recording { name, form: Form::File, header, file, source, identity: None, warnings })
    }

    /// Header, features and the range of the data.
    fn file_parts(
        map: &Arc<Mapping>,
        options: OpenOptions,
        warnings: &mut Vec<String>,
    ) -> Result<(FileHeader, Header, std::ops::Range<usize>)> {
        let (mut file, mut header) = FileHeader::parse(map)?;
        if file.unfinished {
            warnings.push(
                "the header gives no data size: the recording was not finished; its records are taken to the end of the \
                 file, and it has no feature sections"
                    .into(),
            );
        }
        let whole = map.len() as u64;
        let mut end = file.data.end().unwrap_or(u64::MAX);
        if end > whole {
            if !options.salvage {
                return Err(Error::truncated(
                    file.data.offset,
                    format!(
                        "the header gives {:#x} bytes of data, the file has {:#x}",
                        file.data.size,
                        whole - file.data.offset
                    ),
                )
                .in_file(map.path())
                .hint("--salvage keeps the whole records"));
            }
            warnings.push("the data is cut; what followed it, all feature sections, is lost".into());
            file.damaged = true;
            end = whole;
            file.data.size = whole - file.data.offset;
            file.features = Default::default();
        }
        if let Err(e) = file.read_features(map, &mut header) {
            if !options.salvage {
                return Err(e);
            }
            file.damaged = true;
            warnings.push(format!("feature sections are lost from here on: {e}"));
        }
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(map.len());
        let start = usize::try_from(file.data.offset).unwrap_or(usize::MAX).min(end);
        Ok((file, header, start..end))
    }

    fn from_directory(directory: data::Directory, options: OpenOptions) -> Result<Recording> {
        let mut warnings = Vec::new();
        let (order, container, _) = detect(&directory.data).map_err(|e| e.in_file(directory.data.path()))?;
        if container == Container::Pipe {
            return Err(Error::new(ErrorKind::Unsupported, "a directory whose data is in pipe format")
                .in_file(directory.data.path()));
        }
        let (file, mut header, range) = Self::file_parts(&directory.data, options, &mut warnings)?;
        header.remove_feature(Feature::DIR_FORMAT);
        debug_assert_eq!(order, file.order);
        if !directory.others.is_empty() {
            warnings.push(format!(
                "left in the directory, since one file can't hold it: {}",
                directory.others.join(", ")
            ));
        }
        let mut parts = vec![(directory.data.clone(), range)];
        parts.extend(directory.parts.into_iter().map(|m| {
            let len = m.len();
            (m, 0..len)
        }));
        let source = Box::new(DirectorySource::new(parts, header.evlist()));
        Ok(Recording {
            name: directory.path,
            form: Form::Directory,
            header,
            file: None,
            source,
            identity: None,
            warnings,
        })
    }

    /// Makes the source that goes on with decompression at `at` of a mapped block; `None` for other blocks.
    pub fn resume(block: &Block, at: usize, order: ByteOrder) -> Option<Box<dyn Source>> {
        let (map, range) = block.map()?;
        let from = range.start.checked_add(at)?;
        Some(decompressing(map, from..range.end, block.base() + at as u64, order))
    }
}
