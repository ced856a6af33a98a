//go:build tools

// Package payload pins the etcd client command that a payload is built from.
package payload

import _ "go.etcd.io/etcd/etcdctl/v3"
