//! A pcap file that the core reads, also before it is known how it is to be read.
//!
//! A report of a large file loads modules for a tenth of a second, and `begin` reads the file meanwhile as most reports
//! do. Python then opens the file as the options want it: if that is the same, `open` returns what has begun.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::file::{read_file, Limits, MessageReader, Part, Plan, State, WantedSpis};
use super::frames::Link;
use super::header_rules::{find_link, HeaderRules};
use super::records::{PcapLayout, FILE_HEADER};
use crate::analysis::init_messages::InitForms;

/// How a file is read.
pub struct PcapFile {
    pub path: PathBuf,
    /// Device and inode: another file may have its path by now.
    pub identity: (u64, u64),
    pub layout: PcapLayout,
    pub link: Link,
    pub rules: Arc<HeaderRules>,
    /// Initiator SPIs of the IKE SAs whose encrypted messages are stored; None: of all.
    pub spis: Option<HashSet<u64>>,
    /// None: clear messages are stored.
    pub forms: Option<InitForms>,
    pub state: State,
}

impl PcapFile {
    /// Read the records that begin in a range of the file; `first` is the number of the first packet.
    fn read(&self, bounds: (u64, u64), first: u32, limits: Limits) -> Part {
        let links = [self.link];
        let plan = Plan {
            layout: self.layout,
            tables: self.rules.tables(&links),
            encrypted: self.spis.as_ref().map_or(WantedSpis::All, WantedSpis::Of),
            reader: self.forms.as_ref().map(|forms| forms as &dyn MessageReader),
        };
        let open = |offset| open_at(&self.path, self.identity, offset);
        read_file(open, bounds, first, limits, &plan, &self.state)
    }

    fn is_read_as(&self, other: &Self) -> bool {
        (self.identity, self.layout, self.link) == (other.identity, other.layout, other.link)
            && (&self.rules, &self.spis) == (&other.rules, &other.spis)
            && self.forms.is_some() == other.forms.is_some()
    }
}

/// A reading in another thread.
struct EarlyReading {
    file: Arc<PcapFile>,
    bounds: (u64, u64),
    first: u32,
    limits: Limits,
    thread: JoinHandle<Part>,
}

impl EarlyReading {
    fn stop(self) {
        self.file.state.stop();
        let _ = self.thread.join(); // a panic in it concerns nobody
    }
}

/// The reading that has begun and that nobody has taken.
static BEGUN: Mutex<Option<EarlyReading>> = Mutex::new(None);

/// Reads a file, or takes what another thread has begun to read.
pub struct FileReader {
    pub file: Arc<PcapFile>,
    early: Mutex<Option<EarlyReading>>,
}

impl FileReader {
    /// Read the records that begin in a range of the file; `first` is the number of the first packet.
    pub fn read(&self, bounds: (u64, u64), first: u32, limits: Limits) -> Part {
        if let Some(early) = lock(&self.early).take() {
            if (early.bounds, early.first, early.limits.rest) == (bounds, first, limits.rest) {
                self.file.state.confirm();
                if let Ok(part) = early.thread.join() {
                    return part;
                }
            } else {
                early.stop();
                self.file.state.resume();
            }
        }
        self.file.read(bounds, first, limits)
    }

    /// Whether the file has been begun before it was opened.
    pub fn has_begun(&self) -> bool {
        lock(&self.early).is_some()
    }
}

/// Open a file; a reading that has begun is taken if it is as this one, and otherwise goes on.
pub fn open(file: PcapFile) -> FileReader {
    let mut begun = lock(&BEGUN);
    let early = begun.take_if(|early| early.file.is_read_as(&file));
    FileReader {
        file: early
            .as_ref()
            .map_or_else(|| Arc::new(file), |early| Arc::clone(&early.file)),
        early: Mutex::new(early),
    }
}

/// Begin to read a file in one thread, as a report without keys and further ports does; the others follow if it is
/// taken. Whether the core can read it.
pub fn begin(path: &Path, limits: Limits) -> bool {
    let Some((file, size)) = prepare(path) else {
        return false;
    };
    let bounds = (FILE_HEADER as u64, size);
    let file = Arc::new(file);
    let reading = Arc::clone(&file);
    let Ok(thread) = std::thread::Builder::new().spawn(move || reading.read(bounds, 1, limits)) else {
        return false;
    };
    let early = EarlyReading {
        file,
        bounds,
        first: 1,
        limits,
        thread,
    };
    if let Some(before) = lock(&BEGUN).replace(early) {
        before.stop();
    }
    true
}

/// End the reading that has begun and that nobody has taken.
pub fn discard() {
    if let Some(early) = lock(&BEGUN).take() {
        early.stop();
    }
}

fn prepare(path: &Path) -> Option<(PcapFile, u64)> {
    let mut source = File::open(path).ok()?;
    let metadata = source.metadata().ok().filter(Metadata::is_file)?;
    let mut header = [0; FILE_HEADER];
    source.read_exact(&mut header).ok()?;
    let (layout, link_type) = PcapLayout::parse(&header)?;
    let link = find_link(link_type);
    let file = PcapFile {
        path: path.to_path_buf(),
        identity: identify(&metadata)?,
        layout,
        link,
        rules: HeaderRules::shared(&[]),
        spis: Some(HashSet::new()),
        forms: Some(InitForms::default()),
        state: State::unconfirmed(),
    };
    (link != Link::HandBack).then_some((file, metadata.len()))
}

/// The file at an offset; None if it cannot be opened, or is another one than Python reads.
fn open_at(path: &Path, identity: (u64, u64), offset: u64) -> Option<File> {
    let mut file = File::open(path).ok()?;
    if identify(&file.metadata().ok()?).is_some_and(|found| found != identity) {
        return None;
    }
    file.seek(SeekFrom::Start(offset)).ok()?;
    Some(file)
}

/// Device and inode; None where files have none.
#[cfg(unix)]
fn identify(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identify(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
