// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
)

// written names what the servers of both looks write, and what CRDs between them told servers to write. A server
// that was replaced counts: it wrote until it was gone. The CRD of the recorded look counts too, since a server
// may have been behind.
//
// Where generations of the CRD were missed, status.storedVersions names their storage versions unless someone
// removed them.
func written(s State, l Look) []string {
	var hashes []string
	add := func(hash string) {
		if hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	for _, server := range s.Servers {
		add(server.Hash)
	}
	if s.CRD != nil {
		add(s.CRD.Hash)
	}
	for _, crd := range l.CRDs {
		add(crd.Hash)
	}
	if l.CRD != nil && missed(s, l) {
		for _, hash := range l.CRD.Stored {
			add(hash)
		}
	}
	if l.CRD != nil {
		add(l.CRD.Hash)
	}
	for _, server := range l.Servers {
		add(server.Hash)
	}
	return hashes
}

// join keeps the order of arrival. Where there is no room for all, Unknown stands for those that came first.
func join(persisted, hashes []string) []string {
	joined := slices.Clone(persisted)
	for _, hash := range hashes {
		if !slices.Contains(joined, hash) {
			joined = append(joined, hash)
		}
	}
	if len(joined) > mostPersisted {
		joined = slices.DeleteFunc(joined, func(hash string) bool { return hash == Unknown })
		joined = append([]string{Unknown}, joined[len(joined)-(mostPersisted-1):]...)
	}
	return joined
}

// shown fills in what a server that did not answer this time showed before. It is the same process, so it writes the
// same; what else a CRD may have told it to write is named by written.
func shown(s State, l Look) []Server {
	servers := slices.Clone(l.Servers)
	for i, server := range servers {
		if known, ok := find(s.Servers, server.process()); ok && !server.Answered && known.Answered {
			servers[i].Hash, servers[i].Answered = known.Hash, true
		}
	}
	return servers
}

// agreed is the epoch of the look, unless what the servers show speaks against it.
func agreed(l Look) *EpochID {
	if l.Epoch == nil {
		return nil
	}
	for _, server := range l.Servers {
		if server.Hash != "" && server.Hash != l.Epoch.Hash {
			return nil
		}
	}
	return l.Epoch
}

// current: a look from which nothing was learnt changes nothing. A server that has never answered may write any
// version.
func current(s State, l Look) string {
	if s.Epoch != nil {
		return s.Epoch.Hash
	}
	silent := slices.ContainsFunc(l.Servers, func(server Server) bool { return !server.Answered })
	if s.Current == "" || silent || disagree(l.Servers) || slices.ContainsFunc(l.Servers, func(server Server) bool {
		return server.Hash != "" && server.Hash != s.Current
	}) {
		return Unknown
	}
	return s.Current
}

func disagree(servers []Server) bool {
	hash := ""
	for _, server := range servers {
		if server.Hash != "" && hash != "" && server.Hash != hash {
			return true
		}
		if server.Hash != "" {
			hash = server.Hash
		}
	}
	return false
}

// vanished: the CRD is gone, and with it, after its finalizer, the objects; or every server has answered and
// none serves the resource. Where a State is forgotten too early nothing is lost: the next one begins with Unknown.
func vanished(s State, l Look) bool {
	if l.CRD != nil {
		return false
	}
	return s.CRD != nil || len(l.Servers) > 0 && !slices.ContainsFunc(l.Servers, func(server Server) bool {
		return !server.Answered || server.Hash != ""
	})
}

func find(servers []Server, process string) (Server, bool) {
	for _, server := range servers {
		if server.process() == process {
			return server, true
		}
	}
	return Server{}, false
}
