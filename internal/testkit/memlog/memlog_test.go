package memlog_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

func TestStorage(t *testing.T) {
	log := memlog.New()
	enginetest.RunStorage(t, func(*testing.T) logledger.Storage { return log })
}
