# Shows SQLite's test scripts the logs that this VFS keeps in a pool as files beside the database, and the database's
# header as the VFS shows it. What is made of a log is a log: copies of a database have copies of its logs.

foreach command {file glob open hexio_read hexio_write} {
  if {[info commands plain_$command] eq ""} { rename $command plain_$command }
}

# Whether `name` is that of a log, of a database that is there.
proc is_log {name} {
  regexp {^(.+)-(wal|journal)$} $name - database
  expr {[info exists database] && ![plain_file exists $name] && [plain_file isfile $database]}
}

proc log_size {name} { ferrite_file size $name }

proc file_content {name} {
  if {[is_log $name]} { return [ferrite_file read $name 0 2147483647] }
  set from [plain_open $name rb]
  set content [read $from]
  close $from
  # A header as the VFS shows it.
  if {[string range $content 0 5] eq "SQLite" && [string range $content 18 19] eq "\3\3"} {
    set content [string replace $content 18 19 [ferrite_file read $name 18 2]]
  }
  return $content
}

proc copy_one {from to} {
  if {[is_log $from] && [log_size $from] < 0} {
    error "error copying \"$from\": no such file or directory"
  }
  set content [file_content $from]
  if {[is_log $to]} {
    if {[log_size $to] >= 0} { ferrite_file delete $to }
    return [ferrite_file write $to 0 $content]
  }
  set into [plain_open $to wb]
  puts -nonewline $into $content
  close $into
}

proc delete_one {name} {
  if {[is_log $name]} {
    if {[log_size $name] >= 0} { ferrite_file delete $name }
    return
  }
  # A log without its database would be one of nothing.
  foreach suffix {-wal -journal} {
    if {[is_log $name$suffix] && [log_size $name$suffix] >= 0} { ferrite_file delete $name$suffix }
  }
  plain_file delete -force -- $name
}

proc file {what args} {
  set words $args
  while {[string match -* [lindex $words 0]]} { set words [lrange $words 1 end] }
  set name [lindex $words 0]
  switch -- $what {
    delete { foreach name $words { delete_one $name } ; return }
    copy - rename {
      set to [lindex $words end]
      if {$what eq "rename" && ![is_log $name]} { return [plain_file rename {*}$args] }
      if {[llength $words] == 2 && ![plain_file isdirectory $to] && ![plain_file isdirectory $name]
          && ([is_log $name] || [plain_file isfile $name])} {
        if {[plain_file exists $to] && "-force" ni $args} { error "error copying \"$name\" to \"$to\": file already exists" }
        copy_one $name $to
        if {$what eq "rename"} { delete_one $name }
        return
      }
    }
    exists - isfile { if {[is_log $name]} { return [expr {[log_size $name] >= 0}] } }
    size {
      if {[is_log $name]} {
        set bytes [log_size $name]
        if {$bytes < 0} { error "could not read \"$name\": no such file or directory" }
        return $bytes
      }
    }
  }
  uplevel 1 [list plain_file $what {*}$args]
}

proc glob {args} {
  set found [uplevel 1 [list plain_glob {*}$args]]
  foreach name $found {
    foreach suffix {-journal -wal} {
      if {[string match [lindex $args end] $name$suffix] && [is_log $name$suffix] && [log_size $name$suffix] >= 0} {
        lappend found $name$suffix
      }
    }
  }
  return $found
}

# To be read: what is written to a copy would be lost.
proc open {name args} {
  if {[is_log $name] && [log_size $name] >= 0} {
    if {[lindex $args 0] ni {"" r rb RDONLY}} { error "couldn't open \"$name\": it is in a pool" }
    set content [file_content $name]
    set into [plain_open log.copy wb]
    puts -nonewline $into $content
    close $into
    set name log.copy
  }
  uplevel 1 [list plain_open $name {*}$args]
}

proc hexio_read {name at bytes} {
  if {[is_log $name] || ($at < 20 && $at + $bytes > 18)} {
    binary scan [ferrite_file read $name $at $bytes] H* hex
    return [string toupper $hex]
  }
  plain_hexio_read $name $at $bytes
}

proc hexio_write {name at hex} {
  if {![is_log $name]} { return [plain_hexio_write $name $at $hex] }
  set content [binary format H* $hex]
  ferrite_file write $name $at $content
  string length $content
}
