package controller

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/auth"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// levelScram is 3.5-IV2, from which on metadata holds credentials.
const levelScram int16 = 11

// scramBytesMax bounds a salt and a salted password: both come with each login, and the longest that make sense are of 64 bytes.
const scramBytesMax = 1024

// A scramChange is one user's of an AlterUserScramCredentials.
type scramChange struct {
	user      string
	mechanism int8
	remove    bool
	upsert    *kmsg.AlterUserSCRAMCredentialsRequestUpsertion
	err       error
}

// AlterScramCredentials sets and removes credentials. Users are decided each by itself; what is good is written as one batch.
func (c *Controller) AlterScramCredentials(ctx context.Context, r *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	var changes []*scramChange
	byUser := map[string]*scramChange{}
	add := func(ch scramChange) {
		if first := byUser[ch.user]; first != nil {
			// Of a user named twice neither is done, whatever the mechanisms, and there is one answer.
			first.err = refuse(kerr.DuplicateResource, "A user credential cannot be altered twice in the same request")
			return
		}
		byUser[ch.user] = &ch
		changes = append(changes, &ch)
	}
	for i := range r.Deletions {
		d := &r.Deletions[i]
		add(scramChange{user: strings.Clone(d.Name), mechanism: d.Mechanism, remove: true})
	}
	for i := range r.Upsertions {
		u := &r.Upsertions[i]
		add(scramChange{user: strings.Clone(u.Name), mechanism: u.Mechanism, upsert: u})
	}
	for _, ch := range changes {
		if ch.err == nil {
			ch.err = checkScram(ch)
		}
	}
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		var recs []kmeta.Record
		for _, ch := range changes {
			if ch.err != nil {
				continue
			}
			var rec kmeta.Record
			if rec, ch.err = decideScram(d.img, ch); ch.err == nil {
				recs = append(recs, rec)
			}
		}
		return recs, nil
	})
	resp := r.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	for _, ch := range changes {
		if ch.err == nil {
			ch.err = err
		}
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User = ch.user
		out.ErrorCode, out.ErrorMessage = answer(ch.err)
		resp.Results = append(resp.Results, out)
	}
	return resp
}

// checkScram refuses what no state of the cluster could make good.
func checkScram(ch *scramChange) error {
	switch {
	case ch.user == "":
		return refuse(kerr.UnacceptableCredential, "Username must not be empty")
	case auth.ScramByNumber(ch.mechanism) == nil:
		return refuse(kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism")
	case ch.remove:
		return nil
	case ch.upsert.Iterations < auth.IterationsMin:
		return refuse(kerr.UnacceptableCredential, "Too few iterations")
	case ch.upsert.Iterations > auth.IterationsMax:
		return refuse(kerr.UnacceptableCredential, "Too many iterations")
	case len(ch.upsert.Salt) == 0 || len(ch.upsert.SaltedPassword) == 0:
		return refuse(kerr.UnacceptableCredential, "Salt and salted password must not be empty")
	case len(ch.upsert.Salt) > scramBytesMax || len(ch.upsert.SaltedPassword) > scramBytesMax:
		return refuse(kerr.UnacceptableCredential, "Salt or salted password too long")
	}
	return nil
}

func decideScram(img *metadata.Image, ch *scramChange) (kmeta.Record, error) {
	if img.MetadataVersion() < levelScram {
		return nil, refuse(kerr.UnsupportedVersion, "The metadata.version of the cluster is too old for SCRAM credentials.")
	}
	if ch.remove {
		if img.ScramCredential(ch.user, ch.mechanism) == nil {
			return nil, refuse(kerr.ResourceNotFound, "Attempt to delete a user credential that does not exist")
		}
		return &kmeta.RemoveUserScramCredentialRecord{Name: ch.user, Mechanism: ch.mechanism}, nil
	}
	stored, server := auth.ScramByNumber(ch.mechanism).Keys(ch.upsert.SaltedPassword)
	return &kmeta.UserScramCredentialRecord{
		Name: ch.user, Mechanism: ch.mechanism, Salt: slices.Clone(ch.upsert.Salt), // a view of the request
		StoredKey: stored, ServerKey: server, Iterations: ch.upsert.Iterations,
	}, nil
}

// DescribeScramCredentials tells which mechanisms users have credentials for; a request that names none asks about all.
func DescribeScramCredentials(img *metadata.Image, r *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	resp := r.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	// Credentials go by user, then mechanism.
	known := map[string]int{}
	var all []kmsg.DescribeUserSCRAMCredentialsResponseResult
	for c := range img.ScramCredentials() {
		at, ok := known[c.Name]
		if !ok {
			at = len(all)
			known[c.Name] = at
			out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			out.User = c.Name
			all = append(all, out)
		}
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = c.Mechanism, c.Iterations
		all[at].CredentialInfos = append(all[at].CredentialInfos, info)
	}
	if len(r.Users) == 0 {
		resp.Results = all
		return resp
	}
	asked := map[string]int{}
	for _, u := range r.Users {
		if asked[u.Name]++; asked[u.Name] > 1 {
			continue
		}
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User = strings.Clone(u.Name)
		resp.Results = append(resp.Results, out)
	}
	for i := range resp.Results {
		out := &resp.Results[i]
		at, ok := known[out.User]
		switch {
		case asked[out.User] > 1:
			out.ErrorCode, out.ErrorMessage = answer(refuse(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: "+out.User))
		case !ok:
			out.ErrorCode, out.ErrorMessage = answer(refuse(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: "+out.User))
		default:
			out.CredentialInfos = all[at].CredentialInfos
		}
	}
	return resp
}
