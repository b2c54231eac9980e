//! The examples in every command's `--help`, by the words that call the command.

/// Each command and its examples, one per line.
pub const ALL: &[(&str, &[&str])] = &[
    (
        "ferrite",
        &[
            "ferrite up                                     # serve the default pool; Ctrl-C ends it",
            "ferrite up --pool /dev/shm/pool --detach       # serve a pool in memory, without a terminal",
            "ferrite status                                 # what is served, by which process",
            "ferrite down                                   # end it",
        ],
    ),
    (
        "ferrite up",
        &[
            "ferrite up",
            "ferrite up --pool /dev/shm/pool --size 4G --disk db=1.5G --mount /mnt/files",
            "ferrite up --pool /dev/shm/pool --keep ~/files.image   # a pool in memory that outlives a reboot",
            "ferrite up --pool /dev/shm/pool --detach       # end it with `ferrite down /dev/shm/pool`",
            "ferrite up --pool /dev/shm/pool --metrics 9187 # http://127.0.0.1:9187/metrics",
            "ferrite up --pool /dev/shm/pool --no-disk --run make -C /mnt/files",
        ],
    ),
    ("ferrite status", &["ferrite status", "ferrite status --json"]),
    (
        "ferrite stat",
        &[
            "ferrite stat                                   # totals since the pool was opened",
            "ferrite stat /dev/shm/pool --watch             # rates of each second; q ends it",
            "ferrite stat /dev/shm/pool --json",
        ],
    ),
    (
        "ferrite metrics",
        &[
            "ferrite metrics                                # for a script; `up --metrics` serves a page",
            "ferrite metrics /dev/shm/pool | grep disk_requests_total",
        ],
    ),
    ("ferrite down", &["ferrite down", "ferrite down /dev/shm/pool"]),
    (
        "ferrite pool",
        &[
            "ferrite pool create /dev/shm/pool --size 1G",
            "ferrite pool info",
            "ferrite pool backup /dev/shm/pool pool.image",
        ],
    ),
    (
        "ferrite pool create",
        &["ferrite pool create /dev/shm/pool --size 1.5G", "ferrite pool create /mnt/pmem/pool --size 64G --json"],
    ),
    ("ferrite pool info", &["ferrite pool info", "ferrite pool info /dev/shm/pool --json"]),
    (
        "ferrite pool check",
        &[
            "ferrite pool check                             # also while it is served",
            "ferrite pool check /dev/shm/pool --repair",
            "ferrite pool check /dev/shm/pool --repair --lose disk0",
        ],
    ),
    (
        "ferrite pool backup",
        &[
            "ferrite pool backup pool.image                 # of the pool that is served",
            "ferrite pool backup /dev/shm/pool /var/backups/pool.image",
            "ferrite pool backup pool.image --with-ssd      # with what is on the SSDs of file systems",
        ],
    ),
    (
        "ferrite pool restore",
        &["ferrite pool restore pool.image /dev/shm/pool", "ferrite pool restore pool.image /dev/shm/pool --size 2G"],
    ),
    ("ferrite pool grow", &["ferrite pool grow /dev/shm/pool --size 2G", "ferrite pool grow /dev/dax0.0"]),
    ("ferrite pool defrag", &["ferrite pool defrag /dev/shm/pool"]),
    (
        "ferrite pool wear",
        &[
            "ferrite up --pool /dev/shm/pool --wear page    # counts, as long as it runs",
            "ferrite pool wear /dev/shm/pool --top 3",
        ],
    ),
    (
        "ferrite tag",
        &[
            "ferrite tag put notes notes.txt                # into the pool that is served",
            "ferrite tag get notes",
            "ferrite tag list",
        ],
    ),
    ("ferrite tag list", &["ferrite tag list", "ferrite tag list /dev/shm/pool --json"]),
    (
        "ferrite tag put",
        &[
            "ferrite tag put /dev/shm/pool notes notes.txt",
            "ferrite tag put --pool /dev/shm/pool notes notes.txt --lose 4096",
            "ferrite tag put notes < notes.txt              # into the pool that is served",
        ],
    ),
    (
        "ferrite tag get",
        &[
            "ferrite tag get /dev/shm/pool notes copy.txt",
            "ferrite tag get notes | less            # from the pool that is served",
        ],
    ),
    ("ferrite tag remove", &["ferrite tag remove /dev/shm/pool notes"]),
    (
        "ferrite disk",
        &[
            "ferrite disk create /dev/shm/pool d0 --size 256M",
            "ferrite disk attach d0                         # of the pool that is served",
            "ferrite disk list",
        ],
    ),
    (
        "ferrite disk create",
        &[
            "ferrite disk create /dev/shm/pool d0 --size 256M",
            "ferrite disk create /dev/shm/pool d1 --size 1.5G --thin --checksum",
        ],
    ),
    ("ferrite disk list", &["ferrite disk list", "ferrite disk list /dev/shm/pool --json"]),
    ("ferrite disk remove", &["ferrite disk remove /dev/shm/pool d0"]),
    (
        "ferrite disk resize",
        &["ferrite disk resize d0 --size 512M", "ferrite disk resize /dev/shm/pool d0 --size 1.5G"],
    ),
    (
        "ferrite disk serve",
        &[
            "ferrite disk serve d0 --unix /run/d0.nbd",
            "ferrite disk serve /dev/shm/pool d0 --tcp 127.0.0.1:10809",
            "ferrite disk serve /dev/shm/pool d0 --pace pcm   # at the speed of phase-change memory",
        ],
    ),
    (
        "ferrite disk attach",
        &[
            "ferrite disk attach d0                         # then: mkfs.ext4 /dev/ferrite/d0",
            "ferrite disk attach /dev/shm/pool d0",
        ],
    ),
    ("ferrite disk detach", &["ferrite disk detach d0", "ferrite disk detach /dev/shm/pool d0"]),
    ("ferrite disk stat", &["ferrite disk stat d0", "ferrite disk stat /dev/shm/pool d0 --watch --json"]),
    (
        "ferrite disk fault",
        &[
            "ferrite disk fault                             # the faulty disks that are open",
            "ferrite disk fault /dev/shm/pool disk.img hang@op=write",
            "ferrite disk fault /dev/shm/pool disk.img none  # requests that hang go on",
        ],
    ),
    (
        "ferrite disk copy",
        &[
            "ferrite disk copy disk.img /dev/shm/pool:d0",
            "ferrite disk copy /dev/shm/pool:d0 nbd://server/d0",
            "ferrite disk copy /dev/sdb sdb.img",
        ],
    ),
    (
        "ferrite disk export",
        &[
            "ferrite disk export disk.img --unix disk.nbd",
            "ferrite disk export hdd-7200:disk.img --unix disk.nbd --trace requests.log",
        ],
    ),
    (
        "ferrite guest",
        &[
            "ferrite guest create /mnt/pmem/pool g --size 64G --pm 8G --disk /mnt/ssd/g.img",
            "ferrite disk attach /mnt/pmem/pool g           # the guest as /dev/ferrite/g",
            "ferrite guest run /mnt/pmem/pool g -- PROGRAM {}  # or in a program's own memory",
            "ferrite guest attach /mnt/pmem/pool g          # or as a file that a virtual machine maps",
            "ferrite guest stat g",
            "ferrite guest flush g                          # /mnt/ssd/g.img is its image then",
        ],
    ),
    (
        "ferrite guest create",
        &[
            "ferrite guest create /mnt/pmem/pool g --size 64G --pm 8G --disk /mnt/ssd/g.img",
            "ferrite guest create pool h --size 64G --pm 1G..16G --disk h.img  # as much as others leave",
            "ferrite guest create pool old --size 10G --disk old.img       # an image of 10G becomes a guest",
        ],
    ),
    (
        "ferrite guest set",
        &[
            "ferrite guest set g --pm 1G..8G",
            "ferrite guest set /mnt/pmem/pool g --weight 300   # three times the usual one",
        ],
    ),
    (
        "ferrite guest budget",
        &[
            "ferrite guest budget",
            "ferrite guest budget /mnt/pmem/pool --set 16G",
            "ferrite guest budget pool --set auto          # half of what guests have and the pool has free",
        ],
    ),
    (
        "ferrite guest attach",
        &["ferrite guest attach pool g", "ferrite guest attach pool g --path /srv/vm/g.pmem --owner libvirt-qemu"],
    ),
    ("ferrite guest serve", &["ferrite guest serve pool g", "ferrite guest serve pool g --tcp 127.0.0.1:10809"]),
    ("ferrite guest detach", &["ferrite guest detach g", "ferrite guest detach /mnt/pmem/pool g --json"]),
    ("ferrite guest list", &["ferrite guest list", "ferrite guest list /mnt/pmem/pool --json"]),
    ("ferrite guest stat", &["ferrite guest stat g", "ferrite guest stat /mnt/pmem/pool g --watch --json"]),
    ("ferrite guest flush", &["ferrite guest flush g"]),
    (
        "ferrite guest resize",
        &[
            "ferrite guest resize /mnt/pmem/pool g --size 128G      # its file grows with it",
            "ferrite guest resize /mnt/pmem/pool g --size 32G --lose 4096",
            "ferrite guest resize /mnt/pmem/pool g --pm 4G",
        ],
    ),
    (
        "ferrite guest export",
        &["ferrite guest export /mnt/pmem/pool g g.raw", "ferrite guest export /mnt/pmem/pool g g.raw --force"],
    ),
    ("ferrite guest import", &["ferrite guest import /mnt/pmem/pool g g.raw"]),
    (
        "ferrite guest run",
        &[
            "ferrite guest run /mnt/pmem/pool g -- PROGRAM {}",
            "ferrite guest run pool g -- qemu-system-x86_64 $(ferrite guest arguments pool g) ...",
        ],
    ),
    (
        "ferrite guest arguments",
        &["ferrite guest arguments pool g --for qemu", "ferrite guest arguments pool g --for qemu-pmem"],
    ),
    (
        "ferrite guest remove",
        &["ferrite guest remove /mnt/pmem/pool g", "ferrite guest remove /mnt/pmem/pool g --lose 4096"],
    ),
    (
        "ferrite cache",
        &[
            "ferrite cache create /mnt/pmem/pool c --disk /dev/sdb --ssd /dev/nvme0n1 --ssd /dev/nvme1n1",
            "ferrite disk attach /mnt/pmem/pool c           # the cached disk as /dev/ferrite/c",
            "ferrite cache stat c",
            "ferrite cache clean c                          # writes all dirty data to the disk",
        ],
    ),
    (
        "ferrite cache create",
        &[
            "ferrite cache create /mnt/pmem/pool c --disk /dev/sdb --ssd /dev/nvme0n1 --ssd /dev/nvme1n1",
            "ferrite cache create /mnt/pmem/pool c --disk /dev/sdb --stamp tail --ssd /dev/nvme0n1",
            "ferrite cache create /mnt/pmem/pool two --disk a=/dev/sdb --disk b=/dev/sdc --ssd /dev/nvme0n1",
            "ferrite cache create pool try --disk hdd-7200:disk.img --ssd ssd-sata:s0.img --ssd ssd-sata:s1.img",
        ],
    ),
    ("ferrite cache list", &["ferrite cache list", "ferrite cache list /mnt/pmem/pool --json"]),
    ("ferrite cache stat", &["ferrite cache stat c", "ferrite cache stat /mnt/pmem/pool c --json"]),
    (
        "ferrite cache set",
        &[
            "ferrite cache set c --mode write-through       # also while it is in use",
            "ferrite cache set /mnt/pmem/pool c --dirty-max 5% --dirty-age 30s --bypass never",
        ],
    ),
    (
        "ferrite cache check",
        &["ferrite cache check c", "ferrite cache check /mnt/pmem/pool c --data   # reads every page on the SSDs"],
    ),
    ("ferrite cache drop", &["ferrite cache drop c                           # before a measurement"]),
    ("ferrite cache add-ssd", &["ferrite cache add-ssd /mnt/pmem/pool c /dev/nvme2n1"]),
    (
        "ferrite cache remove-ssd",
        &["ferrite cache remove-ssd /mnt/pmem/pool c 0", "ferrite cache remove-ssd /mnt/pmem/pool c 0 --cancel"],
    ),
    ("ferrite cache online", &["ferrite cache online c 1"]),
    ("ferrite cache add-disk", &["ferrite cache add-disk /mnt/pmem/pool c more=/dev/sdc"]),
    ("ferrite cache remove-disk", &["ferrite cache remove-disk /mnt/pmem/pool c more"]),
    ("ferrite cache remove", &["ferrite cache remove /mnt/pmem/pool c"]),
    (
        "ferrite cache forget",
        &["ferrite cache forget /mnt/pmem/pool c --clean", "ferrite cache forget /mnt/pmem/pool c --lose 4096"],
    ),
    ("ferrite cache clean", &["ferrite cache clean c", "ferrite cache clean /mnt/pmem/pool c --json"]),
    ("ferrite wal", &["ferrite wal stat", "ferrite wal drain"]),
    ("ferrite wal stat", &["ferrite wal stat", "ferrite wal stat /dev/shm/pool --json"]),
    (
        "ferrite wal drain",
        &[
            "ferrite wal drain                              # every log of the pool that is served",
            "ferrite wal drain /dev/shm/pool app.db",
        ],
    ),
    ("ferrite wal forget", &["ferrite wal forget /dev/shm/pool app.db"]),
    (
        "ferrite fs",
        &[
            "ferrite fs create /dev/shm/pool files",
            "ferrite fs mount files /mnt/files",
            "ferrite fs unmount /mnt/files",
        ],
    ),
    (
        "ferrite fs create",
        &["ferrite fs create /dev/shm/pool files", "ferrite fs create /dev/shm/pool media --super-threshold never"],
    ),
    ("ferrite fs tier", &["ferrite fs tier add files --ssd /dev/nvme0n1", "ferrite fs tier drain /mnt/files"]),
    (
        "ferrite fs tier add",
        &[
            "ferrite fs tier add /mnt/files --ssd /dev/nvme0n1",
            "ferrite fs tier add /dev/shm/pool files --ssd s0.img --ssd s1.img",
        ],
    ),
    (
        "ferrite fs tier remove",
        &["ferrite fs tier remove /mnt/files /dev/nvme0n1", "ferrite fs tier remove /dev/shm/pool files s0.img"],
    ),
    ("ferrite fs tier grow", &["ferrite fs tier grow /mnt/files /dev/vg/ssd", "ferrite fs tier grow files s0.img"]),
    ("ferrite fs tier scrub", &["ferrite fs tier scrub /mnt/files", "ferrite fs tier scrub files --json"]),
    (
        "ferrite fs tier adopt",
        &["ferrite fs tier adopt files", "ferrite fs tier adopt /dev/shm/pool files --lose 1228800"],
    ),
    ("ferrite fs tier set", &["ferrite fs tier set /mnt/files --policy paper"]),
    ("ferrite fs tier list", &["ferrite fs tier list /mnt/files", "ferrite fs tier list /dev/shm/pool files --json"]),
    (
        "ferrite fs tier stat",
        &["ferrite fs tier stat /mnt/files", "ferrite fs tier stat /mnt/files --where /mnt/files/a --page 3"],
    ),
    ("ferrite fs tier clean", &["ferrite fs tier clean /mnt/files", "ferrite fs tier clean files --all"]),
    ("ferrite fs tier trim", &["ferrite fs tier trim /mnt/files", "ferrite fs tier trim /dev/shm/pool files --json"]),
    ("ferrite fs tier drain", &["ferrite fs tier drain /mnt/files", "ferrite fs tier drain files --json"]),
    ("ferrite fs list", &["ferrite fs list", "ferrite fs list /dev/shm/pool --json"]),
    ("ferrite fs remove", &["ferrite fs remove /dev/shm/pool files"]),
    (
        "ferrite fs mount",
        &[
            "ferrite fs mount files /mnt/files              # of the pool that is served",
            "ferrite fs mount /dev/shm/pool files /mnt/files --cached --allow-other",
        ],
    ),
    ("ferrite fs unmount", &["ferrite fs unmount /mnt/files", "ferrite fs unmount /dev/shm/pool files"]),
    ("ferrite fs stat", &["ferrite fs stat /mnt/files", "ferrite fs stat /dev/shm/pool files --json"]),
    ("ferrite fs check", &["ferrite fs check", "ferrite fs check /dev/shm/pool --repair"]),
    (
        "ferrite run",
        &["ferrite run -- cp -r /usr/include /mnt/files/", "ferrite run --stat -- tar -cf /mnt/files/etc.tar /etc"],
    ),
    (
        "ferrite bench",
        &["ferrite bench --list", "ferrite bench protection --quick", "ferrite bench zones --output results --json"],
    ),
    ("ferrite sim", &["ferrite sim llc gzip -k FILE", "ferrite sim ftl --trace FILE"]),
    (
        "ferrite sim llc",
        &[
            "ferrite sim llc gzip -k FILE",
            "ferrite sim llc --policy worth --llc 4M:16 --wear start-gap --trace FILE.gz",
            "ferrite sim llc --save events.cpc sort FILE    # then: --filtered --trace events.cpc",
        ],
    ),
    (
        "ferrite sim ftl",
        &[
            "ferrite sim ftl --scheme fast --trace hm_0.csv.gz --prefill --json",
            "ferrite sim ftl --scheme page --scheme fast --trace ext4.log --trace xfs.log --plot erases.svg",
            "ferrite disk export IMAGE --unix SOCKET --trace ext4.log   # until Ctrl-C; then replay it",
        ],
    ),
    (
        "ferrite sim convert",
        &[
            "ferrite sim convert hm_0.csv.gz hm_0.plain --as plain",
            "ferrite sim convert lackey.txt accesses.zst --as compact",
        ],
    ),
    ("ferrite doctor", &["ferrite doctor", "ferrite doctor /var/lib", "ferrite doctor /dev/shm --json"]),
    (
        "ferrite completions",
        &[
            "ferrite completions bash > ~/.local/share/bash-completion/completions/ferrite",
            "ferrite completions fish > ~/.config/fish/completions/ferrite.fish",
            "ferrite completions zsh > _ferrite             # in a folder of $fpath",
        ],
    ),
    ("ferrite man", &["ferrite man ~/.local/share/man/man1           # then `man ferrite-up`"]),
];
