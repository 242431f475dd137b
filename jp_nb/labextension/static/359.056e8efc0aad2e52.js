"use strict";(self.rspackChunkjp_nb=self.rspackChunkjp_nb||[]).push([[359],{32(n,e,o){var t=o(33),r=o.n(t),a=o(34),A=(o.n(a))()(r());A.push([n.id,`/* Copy and "Insert as cell" on a code block of an answer. */

.jp-nb-code {
  position: relative;
}

/* JupyterLab removes the space below an element that is the last one of its parent. */
.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {
  margin-bottom: 1em;
}

/* It covers the space above the block rather than the code. */
.jp-nb-code-bar {
  position: absolute;
  right: 4px;
  top: -16px;
  z-index: 1;
  display: flex;
  gap: 4px;
  max-width: calc(100% - 8px);
  opacity: 0;
}

.jp-nb-code:first-child > .jp-nb-code-bar {
  top: 0;
}

.jp-nb-code:hover > .jp-nb-code-bar,
.jp-nb-code-bar:focus-within {
  opacity: 1;
}

/* A screen that cannot hover shows the buttons always. */
@media (hover: none) {
  .jp-nb-code-bar {
    opacity: 1;
  }
}

.jp-nb-button {
  padding: 0 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 22px;
  white-space: nowrap;
  cursor: pointer;
}

.jp-nb-button:hover {
  background: var(--jp-layout-color2);
}

.jp-nb-button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

/* "Ask about this error", below a traceback. */

.jp-nb-error-bar {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 8px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
}

/* The side panel with the conversations of the notebook. */

.jp-nb-section {
  overflow-y: auto;
  padding: 8px 12px;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  overflow-wrap: anywhere;
}

.jp-nb-chart {
  display: flex;
  gap: 1px;
  align-items: flex-end;
  height: 48px;
  margin-bottom: 8px;
  border-bottom: 1px solid var(--jp-border-color1);
}

.jp-nb-bar {
  flex: 1 1 0;
  min-height: 1px;
  max-width: 24px;
  background: var(--jp-brand-color1);
}

.jp-nb-row {
  padding: 8px 0;
  border-bottom: 1px solid var(--jp-border-color2);
}

.jp-nb-row-title {
  font-weight: 600;
}

.jp-nb-line {
  color: var(--jp-ui-font-color1);
}

.jp-nb-actions-row {
  display: flex;
  gap: 4px;
  margin-top: 4px;
}

/* A picture of a report selects its colors by the scheme of this element: that of the theme, not
   that of the browser. */
.jp-nb-picture {
  color-scheme: light;
}

[data-jp-theme-light='false'] .jp-nb-picture {
  color-scheme: dark;
}
`,"",{version:3,sources:["webpack://./style/index.css"],names:[],mappings:"AAAA,4DAA4D;;AAE5D;EACE,kBAAkB;AACpB;;AAEA,sFAAsF;AACtF;EACE,kBAAkB;AACpB;;AAEA,8DAA8D;AAC9D;EACE,kBAAkB;EAClB,UAAU;EACV,UAAU;EACV,UAAU;EACV,aAAa;EACb,QAAQ;EACR,2BAA2B;EAC3B,UAAU;AACZ;;AAEA;EACE,MAAM;AACR;;AAEA;;EAEE,UAAU;AACZ;;AAEA,yDAAyD;AACzD;EACE;IACE,UAAU;EACZ;AACF;;AAEA;EACE,cAAc;EACd,yCAAyC;EACzC,kBAAkB;EAClB,mCAAmC;EACnC,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;EAClC,iBAAiB;EACjB,mBAAmB;EACnB,eAAe;AACjB;;AAEA;EACE,mCAAmC;AACrC;;AAEA;EACE,yCAAyC;EACzC,mBAAmB;AACrB;;AAEA,+CAA+C;;AAE/C;EACE,aAAa;EACb,eAAe;EACf,YAAY;EACZ,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;AACpC;;AAEA,2DAA2D;;AAE3D;EACE,gBAAgB;EAChB,iBAAiB;EACjB,+BAA+B;EAC/B,kCAAkC;EAClC,uBAAuB;AACzB;;AAEA;EACE,aAAa;EACb,QAAQ;EACR,qBAAqB;EACrB,YAAY;EACZ,kBAAkB;EAClB,gDAAgD;AAClD;;AAEA;EACE,WAAW;EACX,eAAe;EACf,eAAe;EACf,kCAAkC;AACpC;;AAEA;EACE,cAAc;EACd,gDAAgD;AAClD;;AAEA;EACE,gBAAgB;AAClB;;AAEA;EACE,+BAA+B;AACjC;;AAEA;EACE,aAAa;EACb,QAAQ;EACR,eAAe;AACjB;;AAEA;yBACyB;AACzB;EACE,mBAAmB;AACrB;;AAEA;EACE,kBAAkB;AACpB",sourcesContent:['/* Copy and "Insert as cell" on a code block of an answer. */\n\n.jp-nb-code {\n  position: relative;\n}\n\n/* JupyterLab removes the space below an element that is the last one of its parent. */\n.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {\n  margin-bottom: 1em;\n}\n\n/* It covers the space above the block rather than the code. */\n.jp-nb-code-bar {\n  position: absolute;\n  right: 4px;\n  top: -16px;\n  z-index: 1;\n  display: flex;\n  gap: 4px;\n  max-width: calc(100% - 8px);\n  opacity: 0;\n}\n\n.jp-nb-code:first-child > .jp-nb-code-bar {\n  top: 0;\n}\n\n.jp-nb-code:hover > .jp-nb-code-bar,\n.jp-nb-code-bar:focus-within {\n  opacity: 1;\n}\n\n/* A screen that cannot hover shows the buttons always. */\n@media (hover: none) {\n  .jp-nb-code-bar {\n    opacity: 1;\n  }\n}\n\n.jp-nb-button {\n  padding: 0 8px;\n  border: 1px solid var(--jp-border-color1);\n  border-radius: 2px;\n  background: var(--jp-layout-color1);\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n  line-height: 22px;\n  white-space: nowrap;\n  cursor: pointer;\n}\n\n.jp-nb-button:hover {\n  background: var(--jp-layout-color2);\n}\n\n.jp-nb-button:focus-visible {\n  outline: 2px solid var(--jp-brand-color1);\n  outline-offset: 1px;\n}\n\n/* "Ask about this error", below a traceback. */\n\n.jp-nb-error-bar {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px 8px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n}\n\n/* The side panel with the conversations of the notebook. */\n\n.jp-nb-section {\n  overflow-y: auto;\n  padding: 8px 12px;\n  color: var(--jp-ui-font-color1);\n  font-size: var(--jp-ui-font-size1);\n  overflow-wrap: anywhere;\n}\n\n.jp-nb-chart {\n  display: flex;\n  gap: 1px;\n  align-items: flex-end;\n  height: 48px;\n  margin-bottom: 8px;\n  border-bottom: 1px solid var(--jp-border-color1);\n}\n\n.jp-nb-bar {\n  flex: 1 1 0;\n  min-height: 1px;\n  max-width: 24px;\n  background: var(--jp-brand-color1);\n}\n\n.jp-nb-row {\n  padding: 8px 0;\n  border-bottom: 1px solid var(--jp-border-color2);\n}\n\n.jp-nb-row-title {\n  font-weight: 600;\n}\n\n.jp-nb-line {\n  color: var(--jp-ui-font-color1);\n}\n\n.jp-nb-actions-row {\n  display: flex;\n  gap: 4px;\n  margin-top: 4px;\n}\n\n/* A picture of a report selects its colors by the scheme of this element: that of the theme, not\n   that of the browser. */\n.jp-nb-picture {\n  color-scheme: light;\n}\n\n[data-jp-theme-light=\'false\'] .jp-nb-picture {\n  color-scheme: dark;\n}\n'],sourceRoot:""}]),o.d(e,{},{A:A})},35(n,e,o){var t=o(33),r=o.n(t),a=o(34),A=(o.n(a))()(r());A.push([n.id,`/* The cells that an open review is about, and the buttons that show them. */

.jp-Notebook .jp-Cell.jp-nb-affected {
  outline: 2px solid var(--jp-warn-color1, #f57c00);
  outline-offset: -2px;
}

.jp-Notebook .jp-Cell.jp-nb-inserts-below {
  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);
}

.jp-Notebook.jp-nb-inserts-at-start {
  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);
}

.jp-nb-show-cells {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.jp-nb-show-cells .jp-nb-show-cell {
  width: auto;
}

.jp-nb-show-problem:not(:empty) {
  padding-left: 4px;
  font-size: var(--jp-ui-font-size1);
}

.jp-nb-back.jp-nb-show-cell {
  position: absolute;
  right: 24px;
  bottom: 24px;
  z-index: 10;
  width: auto;
  box-shadow: var(--jp-elevation-z4);
}
`,"",{version:3,sources:["webpack://./style/reviews.css"],names:[],mappings:"AAAA,4EAA4E;;AAE5E;EACE,iDAAiD;EACjD,oBAAoB;AACtB;;AAEA;EACE,4DAA4D;AAC9D;;AAEA;EACE,2DAA2D;AAC7D;;AAEA;EACE,aAAa;EACb,eAAe;EACf,QAAQ;EACR,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,kCAAkC;AACpC;;AAEA;EACE,WAAW;AACb;;AAEA;EACE,iBAAiB;EACjB,kCAAkC;AACpC;;AAEA;EACE,kBAAkB;EAClB,WAAW;EACX,YAAY;EACZ,WAAW;EACX,WAAW;EACX,kCAAkC;AACpC",sourcesContent:["/* The cells that an open review is about, and the buttons that show them. */\n\n.jp-Notebook .jp-Cell.jp-nb-affected {\n  outline: 2px solid var(--jp-warn-color1, #f57c00);\n  outline-offset: -2px;\n}\n\n.jp-Notebook .jp-Cell.jp-nb-inserts-below {\n  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);\n}\n\n.jp-Notebook.jp-nb-inserts-at-start {\n  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);\n}\n\n.jp-nb-show-cells {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-size: var(--jp-ui-font-size1);\n}\n\n.jp-nb-show-cells .jp-nb-show-cell {\n  width: auto;\n}\n\n.jp-nb-show-problem:not(:empty) {\n  padding-left: 4px;\n  font-size: var(--jp-ui-font-size1);\n}\n\n.jp-nb-back.jp-nb-show-cell {\n  position: absolute;\n  right: 24px;\n  bottom: 24px;\n  z-index: 10;\n  width: auto;\n  box-shadow: var(--jp-elevation-z4);\n}\n"],sourceRoot:""}]),o.d(e,{},{A:A})},34(n){n.exports=function(n){var e=[];return e.toString=function(){return this.map(function(e){var o="",t=void 0!==e[5];return e[4]&&(o+="@supports (".concat(e[4],") {")),e[2]&&(o+="@media ".concat(e[2]," {")),t&&(o+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),o+=n(e),t&&(o+="}"),e[2]&&(o+="}"),e[4]&&(o+="}"),o}).join("")},e.i=function(n,o,t,r,a){"string"==typeof n&&(n=[[null,n,void 0]]);var A={};if(t)for(var p=0;p<this.length;p++){var i=this[p][0];null!=i&&(A[i]=!0)}for(var s=0;s<n.length;s++){var c=[].concat(n[s]);t&&A[c[0]]||(void 0!==a&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=a),o&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=o),r&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=r):c[4]="".concat(r)),e.push(c))}},e}},33(n){n.exports=function(n){var e=n[1],o=n[3];if(!o)return e;if("function"==typeof btoa){var t=btoa(unescape(encodeURIComponent(JSON.stringify(o))));return[e].concat(["/*# ".concat("sourceMappingURL=data:application/json;charset=utf-8;base64,".concat(t)," */")]).join("\n")}return[e].join("\n")}},26(n){var e=[];function o(n){for(var o=-1,t=0;t<e.length;t++)if(e[t].identifier===n){o=t;break}return o}function t(n,t){for(var r={},a=[],A=0;A<n.length;A++){var p=n[A],i=t.base?p[0]+t.base:p[0],s=r[i]||0,c="".concat(i," ").concat(s);r[i]=s+1;var l=o(c),d={css:p[1],media:p[2],sourceMap:p[3],supports:p[4],layer:p[5]};if(-1!==l)e[l].references++,e[l].updater(d);else{var b=function(n,e){var o=e.domAPI(e);return o.update(n),function(e){e?(e.css!==n.css||e.media!==n.media||e.sourceMap!==n.sourceMap||e.supports!==n.supports||e.layer!==n.layer)&&o.update(n=e):o.remove()}}(d,t);t.byIndex=A,e.splice(A,0,{identifier:c,updater:b,references:1})}a.push(c)}return a}n.exports=function(n,r){var a=t(n=n||[],r=r||{});return function(n){n=n||[];for(var A=0;A<a.length;A++){var p=o(a[A]);e[p].references--}for(var i=t(n,r),s=0;s<a.length;s++){var c=o(a[s]);0===e[c].references&&(e[c].updater(),e.splice(c,1))}a=i}}},28(n){var e={};n.exports=function(n,o){var t=function(n){if(void 0===e[n]){var o=document.querySelector(n);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(n){o=null}e[n]=o}return e[n]}(n);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},30(n){n.exports=function(n){var e=document.createElement("style");return n.setAttributes(e,n.attributes),n.insert(e,n.options),e}},29(n,e,o){n.exports=function(n){var e=o.nc;e&&n.setAttribute("nonce",e)}},27(n){n.exports=function(n){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=n.insertStyleElement(n);return{update:function(o){var t,r,a;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(r=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,r&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(a=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),n.styleTagTransform(t,e,n.options)},remove:function(){var n;null===(n=e).parentNode||n.parentNode.removeChild(n)}}}},31(n){n.exports=function(n,e){if(e.styleSheet)e.styleSheet.cssText=n;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(n))}}},25(n,e,o){var t=o(26),r=o.n(t),a=o(27),A=o.n(a),p=o(28),i=o.n(p),s=o(29),c=o.n(s),l=o(30),d=o.n(l),b=o(31),u=o.n(b),f=o(32),C={};C.styleTagTransform=u(),C.setAttributes=c(),C.insert=i().bind(null,"head"),C.domAPI=A(),C.insertStyleElement=d(),r()(f.A,C),f.A&&f.A.locals&&f.A.locals;var h=o(35),E={};E.styleTagTransform=u(),E.setAttributes=c(),E.insert=i().bind(null,"head"),E.domAPI=A(),E.insertStyleElement=d(),r()(h.A,E),h.A&&h.A.locals&&h.A.locals}}]);
//# sourceMappingURL=359.056e8efc0aad2e52.js.map?v=056e8efc0aad2e52