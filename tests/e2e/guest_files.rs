//! Guests as files that virtual machines map, by `ferrite guest attach`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::programs::{client, ferrite};
use crate::server::{Server, can_attach, folder, json, ok, refused, run};

/// Bytes of the guest; the pool has a sixth of its pages.
const SIZE: usize = 24 << 20;

/// The system calls of a machine on its virtio-pmem: `cloud-hypervisor` keeps the file open and calls fsync,
/// `firecracker` closes it and calls msync for all of the mapping. `store FROM TO BYTE` fills pages, `sync` is a flush
/// of the machine. An answer is 0 or the error's number.
const MACHINE: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
is_firecracker = sys.argv[2] == 'firecracker'
try:
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CLOEXEC)
except OSError as error:
    print(error.errno, flush=True)
    sys.exit()
size = os.fstat(file).st_size
MAP_SHARED, MAP_NORESERVE, MS_SYNC = 1, 0x4000, 4
base = libc.mmap(None, size, 3, MAP_SHARED | MAP_NORESERVE, file, 0)
assert base != ctypes.c_void_p(-1).value
if is_firecracker:
    os.close(file)
print(0, flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    answer = 0
    if word == 'store':
        begin, end, byte = map(int, numbers)
        libc.memset(base + begin * 4096, byte, (end - begin) * 4096)
    elif is_firecracker:
        answer = ctypes.get_errno() if libc.msync(base, size, MS_SYNC) else 0
    else:
        try:
            os.fsync(file)
        except OSError as error:
            answer = error.errno
    print(answer, flush=True)
";

const MACHINES: [&str; 2] = ["cloud-hypervisor", "firecracker"];

/// The number of EBUSY.
const BUSY: i32 = 16;

/// A process that makes the calls. It is killed when dropped.
struct Mapping {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Mapping {
    /// Starts the process, or returns the number of the error of opening the file.
    fn start(path: &str, machine: &str) -> Result<Self, i32> {
        let mut command = client("python3");
        let command = command.args(["-c", MACHINE, path, machine]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut mapping = Self { child, lines };
        match mapping.answer() {
            0 => Ok(mapping),
            number => Err(number),
        }
    }

    fn answer(&mut self) -> i32 {
        self.lines.next().expect("it answers").expect("text").parse().expect("a number")
    }

    fn ask(&mut self, line: &str) -> i32 {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
        self.answer()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a pool with the guest "g". Returns the paths of the pool, the image and the file.
fn new_guest(folder: &Path) -> [String; 3] {
    let at = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let [pool, image, file] = ["pool", "image", "file"].map(at);
    ok(&["pool", "create", &pool, "--size", "32M"]);
    json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &image]);
    [pool, image, file]
}

fn attach(pool: &str, more: &[&str]) -> Command {
    let mut command = ferrite();
    command.args(["guest", "attach", pool, "g"]).args(more);
    command
}

/// Starts the command as the owner of the pool, and returns when the guest is the file.
fn attached(pool: &str, file: &str) -> Server {
    Server::of(attach(pool, &["--path", file]).stderr(Stdio::null()), pool.as_ref(), "g is ")
}

/// The calls of machines that are not packaged, on a guest of six times its memory. The machine's process and the owner
/// are killed: what was flushed is there, and of later stores each page is there or not.
#[test]
fn kill_of_a_machine_and_of_the_owner_loses_nothing_flushed() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let [pool, image, file] = new_guest(folder.path());
    let pages = SIZE / 4096;
    let rounds = std::env::var("FERRITE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut flushed = vec![0; pages];
    for round in 0..rounds {
        let (machine, byte) = (MACHINES[round % 2], (3 * round + 1) as u8);
        let newest = byte.wrapping_add(2);
        let server = attached(&pool, &file);
        let mut mapping = Mapping::start(&file, machine).expect("mapped");
        assert_eq!((mapping.ask(&format!("store 0 {pages} {byte}")), mapping.ask("sync")), (0, 0), "{machine}");
        assert_eq!(mapping.ask(&format!("store 7 100 {}", byte.wrapping_add(1))), 0);
        assert_eq!(mapping.ask("sync"), 0);
        flushed.fill(byte);
        flushed[7..100].fill(byte.wrapping_add(1));
        assert_eq!(mapping.ask(&format!("store 50 {} {}", pages / 2, newest)), 0);
        match round % 4 {
            // The page cache outlives its process, and the owner stores it.
            0 | 1 => {
                drop(mapping);
                server.kill();
            }
            _ => {
                server.kill();
                assert_ne!(mapping.ask("sync"), 0, "the machine is told");
            }
        }
        ok(&["guest", "flush", &pool, "g"]);
        let found = fs::read(&image).expect("read");
        for (page, bytes) in found[..SIZE].chunks(4096).enumerate() {
            let newer = (50..pages / 2).contains(&page) && bytes[0] == newest;
            assert!(newer || bytes[0] == flushed[page], "{machine}, page {page}: {}", bytes[0]);
            assert!(bytes.iter().all(|one| *one == bytes[0]), "{machine}, page {page} is torn");
        }
    }
    // Removes the mount of the last owner too.
    ok(&["guest", "detach", &pool, "g"]);
    assert!(!Path::new(&file).exists());
    ok(&["pool", "check", &pool]);
    let stat = json(&["guest", "stat", &pool, "g"]);
    assert_eq!(stat["pm_bytes"], 4 << 20, "{stat}");
}

/// AF5: while a guest is a file no other client has it, and the refusals say what to do.
#[test]
fn af5_an_attached_guest_has_one_user() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let [pool, image, file] = new_guest(folder.path());
    let before = refused(ferrite().args(["guest", "arguments", &pool, "g", "--for", "firecracker"]), 1);
    assert!(before.contains("guest attach"), "{before}");
    assert!(refused(&mut attach(&pool, &["--owner", "root"]), 2).contains("--path"));
    let server = attached(&pool, &file);
    for (program, part) in [
        ("qemu-pmem", format!("mem-path={file},size={SIZE} -device virtio-pmem-pci")),
        ("cloud-hypervisor", format!("--pmem file={file}\n")),
        ("firecracker", format!("\"path_on_host\":\"{file}\"")),
    ] {
        let line = ok(&["guest", "arguments", &pool, "g", "--for", program]);
        assert!(line.contains(&part), "{line}");
    }
    let socket = folder.path().join("socket");
    let listed = [
        (refused(&mut attach(&pool, &[]), 1), "is the file"),
        (refused(ferrite().args(["disk", "serve", &pool, "g", "--unix"]).arg(&socket), 1), "guest detach"),
        (refused(ferrite().args(["disk", "copy", &format!("{pool}:g"), &format!("{image}.copy")]), 1), "is the file"),
        (refused(ferrite().args(["guest", "remove", &pool, "g"]), 1), "in use"),
    ];
    for (text, word) in listed {
        assert!(text.contains(word), "{word}: {text}");
    }
    let maps = "import mmap, os; mmap.mmap(os.open(os.environ['FERRITE_REGION'], 2), 0)";
    let mapped = refused(ferrite().args(["guest", "run", &pool, "g", "--", "python3", "-c", maps]), 1);
    assert!(mapped.contains("in use") || mapped.contains("userfaultfd"), "{mapped}");
    let mut mapping = Mapping::start(&file, MACHINES[1]).expect("mapped");
    assert_eq!(Mapping::start(&file, MACHINES[0]).err(), Some(BUSY), "a second machine");
    let kept = refused(ferrite().args(["guest", "detach", &pool, "g"]), 1);
    assert!(kept.contains(&format!("process {} (python3", mapping.child.id())), "{kept}");
    assert_eq!((mapping.ask("store 9 10 77"), mapping.ask("sync")), (0, 0));
    drop(mapping);
    let gone = json(&["guest", "detach", &pool, "g"]);
    assert_eq!(gone["name"], "g", "{gone}");
    assert!(!Path::new(&file).exists(), "its place is free");
    assert_eq!(server.ended(), Some(0), "nothing of the pool is used");
    assert_eq!(fs::read(&image).expect("read")[9 * 4096], 77);
    ok(&["pool", "check", &pool]);
}

/// Ctrl-C while a machine runs: what it has stored so far is kept, also without a flush, and it gets errors.
#[test]
fn ctrl_c_keeps_what_a_running_machine_stored() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let [pool, image, file] = new_guest(folder.path());
    let mut command = attach(&pool, &["--path", &file, "--json"]);
    let mut server = Server::of(command.stderr(Stdio::piped()), pool.as_ref(), "\"path\"");
    assert_eq!(server.told()["size"].as_u64(), Some(SIZE as u64));
    let mut mapping = Mapping::start(&file, MACHINES[0]).expect("mapped");
    assert_eq!(mapping.ask("store 0 1000 5"), 0);
    crate::server::signal(server.pid(), "INT");
    let waits = server.said_until("waiting for");
    assert!(waits.contains(&format!("process {}", mapping.child.id())), "{waits}");
    server.interrupt_again();
    assert_eq!(server.ended(), Some(0));
    assert_ne!(mapping.ask("sync"), 0, "the file is gone");
    assert!(mapping.child.try_wait().expect("a child of ours").is_none(), "the machine lives");
    drop(mapping);
    ok(&["guest", "flush", &pool, "g"]);
    assert!(fs::read(&image).expect("read")[..1000 * 4096].iter().all(|byte| *byte == 5));
    run(client("cmp").args(["-n", "4096", "-i", &(1000 * 4096).to_string(), &image, "/dev/zero"]));
    ok(&["pool", "check", &pool]);
}
