"""Numbers of the system calls that the filter knows, on x86-64 and on 64-bit ARM.

Source: ``asm/unistd_64.h`` and ``asm-generic/unistd.h`` of Linux; numbers from 424 on are the same on both.
"""

# Name, number on x86-64, number on 64-bit ARM ("-" where there is none); a task has no use for any of them.
_REFUSED = """
# other processes
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, process_madvise 440 440,
process_mrelease 448 448, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424, tkill 200 130,
move_pages 279 239, migrate_pages 256 238, sched_setparam 142 118, sched_setscheduler 144 119,
sched_setattr 314 274, setpriority 141 140, ioprio_set 251 30
# new processes and programs
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, unshare 272 97, setns 308 268
# the network
socket 41 198, socketpair 53 199, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, connect 42 203,
sendto 44 206, sendmsg 46 211, sendmmsg 307 269, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243
# shared memory and queues
shmget 29 194, shmat 30 196, shmdt 67 197, shmctl 31 195, semget 64 190, semop 65 193, semtimedop 220 192,
semctl 66 191, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
mq_timedsend 242 182, mq_timedreceive 243 183, mq_notify 244 184, mq_getsetattr 245 185, memfd_create 319 279,
memfd_secret 447 447
# keys
add_key 248 217, request_key 249 218, keyctl 250 219
# mounts and roots
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, move_mount 429 429, open_tree 428 428,
open_tree_attr 467 467, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433,
mount_setattr 442 442, statmount 457 457, listmount 458 458, mknod 133 -, mknodat 259 33,
open_by_handle_at 304 265, name_to_handle_at 303 264, quotactl 179 60, quotactl_fd 443 443, swapon 167 224,
swapoff 168 225
# what others do with files: Landlock lets a job watch folders that it cannot read
inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27, inotify_rm_watch 255 28
# kernel interfaces with a history of holes
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, bpf 321 280, perf_event_open 298 241,
userfaultfd 323 282, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273,
delete_module 176 106, fanotify_init 300 262, fanotify_mark 301 263, lookup_dcookie 212 18, nfsservctl 180 42,
modify_ldt 154 -, uselib 134 -, ustat 136 -, sysfs 139 -, _sysctl 156 -, vmsplice 278 75, splice 275 76,
tee 276 77, personality 135 92, seccomp 317 277
# the machine
acct 163 89, reboot 169 142, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266,
adjtimex 159 171, sethostname 170 161, setdomainname 171 162, iopl 172 -, ioperm 173 -, syslog 103 116,
vhangup 153 58, sync 162 81, syncfs 306 267
# rights
setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117 147, setresgid 119 149,
setfsuid 122 151, setfsgid 123 152, setgroups 116 159, capset 126 91, setpgid 109 154, setsid 112 157
"""

# What changes a file that cannot be written to: Landlock leaves these alone, a read-only mount does not.
_ATTRIBUTES = """
chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -, fchown 93 55,
fchownat 260 54, utime 132 -, utimes 235 -, utimensat 280 88, futimesat 261 -, setxattr 188 5, lsetxattr 189 6,
fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16,
removexattrat 466 466, file_setattr 469 469
"""

# Before its third version, Landlock leaves these alone, too.
_TRUNCATION = """
truncate 76 45, ftruncate 77 46
"""

# Allowed with some arguments only.
_CONDITIONAL = """
clone 56 220, clone3 435 435, kill 62 129, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
prctl 157 167, prlimit64 302 261, sched_setaffinity 203 122, fcntl 72 25, ioctl 16 29, open 2 -, openat 257 56,
openat2 437 437, creat 85 -
"""

# No later call is known here: a program is told that the kernel has none.
FIRST_UNKNOWN = 470


def _table(text: str) -> dict[str, tuple[int | None, int | None]]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    cells = (cell.split() for line in lines for cell in line.split(",") if cell.strip())
    return {name: (_number(first), _number(second)) for name, first, second in cells}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


REFUSED = _table(_REFUSED)
ATTRIBUTES = _table(_ATTRIBUTES)
TRUNCATION = _table(_TRUNCATION)
CONDITIONAL = _table(_CONDITIONAL)
